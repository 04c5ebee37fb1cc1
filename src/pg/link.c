/*
 * The life of a connection: pause, resolve, connect, stay up until it is lost, and start again.
 * PQconnectPoll may close its socket and open another under the same number, so the watch is
 * dropped before each call and made again after it.
 *
 * A host that drops packets would use up every attempt, since libpq has no time-out per host in
 * non-blocking mode. So after an attempt that timed out, the next attempt begins with the next
 * host.
 *
 * conn is set while the link connects or is up. Every end goes through link_drop_conn, which drops
 * the watch before PQfinish closes the socket. Two holds keep the op waiting, one while it connects
 * and one while it is up; the function that clears the flag releases the hold.
 */
#include "pg/link.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "base/id.h"
#include "base/log.h"

enum {
    REST_MS_MIN = 20, /* back-off: random up to REST_MS_MIN * 2^failures, at most REST_MS_MAX */
    REST_MS_MAX = 2000,
    SERVER_VERSION_MIN = 140000,
};

/* In the order of link_steps. */
enum link_step { STEP_REST, STEP_LOOKUP, STEP_CONNECT, STEP_CONNECTED, STEP_AGAIN };

OP_OF(link_of, pg_link)

/* ---- release ---- */

static void link_drop_watch(struct pg_link *link)
{
    poll_watch_free(link->watch);
    link->watch = NULL;
}

static void link_drop_conn(struct pg_link *link)
{
    link_drop_watch(link);
    PQfinish(link->conn);
    link->conn = NULL;
    link->is_up = false;
}

/* Logged at failures 1, 2, 4, 8 and so on in a row: a database that is down for hours does not fill
 * the log. */
static void link_note_failure(struct pg_link *link, enum err_code code, const char *why)
{
    slice text = slice_trim(slice_cstr(why));
    /* libpq ends its messages with a newline. */
    while (text.len && text.ptr[text.len - 1] == '\n')
        text.len--;
    err_set(&link->last_err, code, "%.*s", SLICE_ARG(text));
    link->failures++;
    link->failures_total++;
    if ((link->failures & (link->failures - 1)) == 0)
        log_event(LOG_WARN, "database connection failed", LOG_CSTR("reason", link->last_err.text),
                  LOG_INT("failures", link->failures));
    if (link->events->on_failure)
        link->events->on_failure(link);
}

/* Ends the attempt. On success step_connected still needs conn; otherwise conn is already NULL. */
static void link_end_attempt(struct pg_link *link)
{
    ASSERT(link->is_connecting);
    link->is_connecting = false;
    timer_stop(&link->connect_timer);
    op_release(&link->op);
}

static void link_fail_attempt(struct pg_link *link, enum err_code code, const char *why)
{
    link_note_failure(link, code, why);
    link_drop_conn(link);
    link_end_attempt(link);
}

void pg_link_lost(struct pg_link *link, enum err_code code, const char *why)
{
    ASSERT(link->is_up);
    link_note_failure(link, code, why);
    link->is_up = false;
    /* Called while conn exists: `why` may be its own message, and the owner may still read its
     * state. is_up is already false, so the owner cannot lose it twice. */
    link->events->on_down(link, &link->last_err);
    link_drop_conn(link);
    op_release(&link->op);
}

/* ---- events of the socket ---- */

static void link_watch(struct pg_link *link, int events);

/* Writing is watched only while data is left to write; otherwise every turn would wake. Reading
 * is always watched: the server blocks if its results are not read (a deadlock of two full
 * buffers). */
static int flush_events(int rc)
{
    return rc > 0 ? POLL_READ | POLL_WRITE : POLL_READ;
}

/* libpq reads and writes by itself; remaining data follows at the next event. */
static void link_poll_settings(struct pg_link *link)
{
    PGresult *result = NULL;
    int rc = PQconsumeInput(link->conn) ? PQflush(link->conn) : -1;
    if (rc < 0) {
        link_fail_attempt(link, ERR_IO, PQerrorMessage(link->conn));
        return;
    }
    poll_watch_set(link->watch, flush_events(rc));
    while (!PQisBusy(link->conn) && (result = PQgetResult(link->conn))) {
        bool is_error = PQresultStatus(result) != PGRES_TUPLES_OK;
        PQclear(result);
        if (!is_error)
            continue;
        link_fail_attempt(link, ERR_IO, PQerrorMessage(link->conn));
        return;
    }
    if (!PQisBusy(link->conn))
        link_end_attempt(link);
}

/* The session is established. Its settings are part of the attempt, and of its time-out. */
static void link_send_settings(struct pg_link *link)
{
    link->is_setting = PQsetnonblocking(link->conn, 1) == 0 &&
                       PQsendQuery(link->conn, link->target->settings);
    int rc = link->is_setting ? PQflush(link->conn) : -1;
    if (rc >= 0)
        link_watch(link, flush_events(rc));
    else
        link_fail_attempt(link, ERR_IO, PQerrorMessage(link->conn));
}

static void link_poll_connect(struct pg_link *link)
{
    link_drop_watch(link);
    switch (PQconnectPoll(link->conn)) {
    /* libpq returns the readiness for which it waits; it reads and writes by itself in the next
     * call. */
    case PGRES_POLLING_READING:
        link_watch(link, POLL_READ);
        break;
    case PGRES_POLLING_WRITING:
        link_watch(link, POLL_WRITE);
        break;
    case PGRES_POLLING_OK:
        link_send_settings(link);
        break;
    default:
        link_fail_attempt(link, ERR_IO, PQerrorMessage(link->conn));
    }
}

static void on_ready(void *owner, int events)
{
    struct pg_link *link = owner;
    if (link->is_connecting && link->is_setting) {
        link_poll_settings(link);
        return;
    }
    if (link->is_connecting) {
        link_poll_connect(link);
        return;
    }
    if (events & POLL_READ) {
        /* Reads the available bytes without blocking; the owner takes the results. */
        if (!PQconsumeInput(link->conn)) {
            pg_link_lost(link, ERR_CLOSED, PQerrorMessage(link->conn));
            return;
        }
        link->events->on_readable(link);
    }
    /* on_readable may have lost the connection. libpq requires a PQflush after PQconsumeInput in
     * non-blocking mode: reading may have freed space in the server for bytes queued here. */
    if (link->is_up)
        pg_link_flush(link);
}

static void link_watch(struct pg_link *link, int events)
{
    ASSERT(!link->watch);
    link->watch = poll_watch_new(link->loop, PQsocket(link->conn), on_ready, link);
    if (link->watch)
        poll_watch_set(link->watch, events);
    else if (link->is_connecting)
        link_fail_attempt(link, ERR_IO, "the database's socket cannot be watched");
}

void pg_link_flush(struct pg_link *link)
{
    ASSERT(link->is_up);
    int rc = PQflush(link->conn);
    if (rc < 0)
        pg_link_lost(link, ERR_CLOSED, PQerrorMessage(link->conn));
    else
        poll_watch_set(link->watch, flush_events(rc));
}

static void on_connect_timeout(struct timer *timer)
{
    struct pg_link *link = CONTAINER_OF(timer, struct pg_link, connect_timer);
    /* Only the remainder matters: link_host takes it modulo the number of hosts. */
    link->host_first++;
    link_fail_attempt(link, ERR_TIMEOUT, "connecting to the database took too long");
}

/* ---- steps ---- */

static uint64_t link_rest_ms(const struct pg_link *link)
{
    /* Random over the whole range, so that the processes of a cluster do not return at the same
     * time after the database's restart. 20 << 7 is past REST_MS_MAX. */
    uint64_t ceiling = REST_MS_MAX;
    if (link->failures < 7)
        ceiling = (uint64_t)REST_MS_MIN << link->failures;
    return REST_MS_MIN / 2 + random_below(ceiling);
}

static enum op_result step_rest(struct op *op)
{
    struct pg_link *link = link_of(op);
    /* Each attempt resolves its names again: after a failover the address may have changed. */
    pg_endpoints_clear(&link->endpoints);
    link->host_at = 0;
    uint64_t rest_ms = link->failures > 0 ? link_rest_ms(link) : link->first_rest_ms;
    link->first_rest_ms = 0;
    if (rest_ms == 0)
        return OP_NEXT;
    op_sleep(op, &link->rest, rest_ms, "pg back-off");
    return OP_WAIT;
}

static const struct pg_host *link_host(const struct pg_link *link)
{
    const struct pg_target *target = link->target;
    return &target->hosts[(link->host_first + link->host_at) % target->host_count];
}

static void link_add_addresses(struct pg_link *link)
{
    const struct pg_host *host = link_host(link);
    for (size_t i = 0; i < link->query.address_count; i++) {
        const struct sockaddr_storage *address = &link->query.addresses[i];
        char text[INET6_ADDRSTRLEN] = "";
        const void *bytes = address->ss_family == AF_INET6
                                ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                                : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
        if (inet_ntop(address->ss_family, bytes, text, sizeof(text)))
            pg_endpoints_add(&link->endpoints, host, text);
    }
}

/* Runs once for each name: takes the answer of the previous lookup, then starts the next one, or
 * continues after the last host. A host whose name does not resolve is left out of the attempt. */
static enum op_result step_lookup(struct op *op)
{
    struct pg_link *link = link_of(op);
    if (link->is_resolving) {
        link->is_resolving = false;
        if (link->query.status == OK)
            link_add_addresses(link);
        else
            link->last_err = link->query.err;
        link->host_at++;
    }
    for (; link->host_at < link->target->host_count; link->host_at++) {
        const struct pg_host *host = link_host(link);
        if (!pg_host_needs_lookup(host)) {
            pg_endpoints_add(&link->endpoints, host, host->address);
            continue;
        }
        link->query = (struct dns_query){.host = slice_cstr(host->name)};
        link->query.deadline_ns = loop_now_ns(link->loop) + link->connect_timeout_ms * 1000 * 1000;
        link->is_resolving = true;
        dns_resolve(link->dns, &link->query, op);
        return op_wait_then(op, STEP_LOOKUP);
    }
    return OP_NEXT;
}

static void on_notice(void *owner, const char *message)
{
    (void)owner;
    log_event(LOG_DEBUG, "database notice", LOG_STR("text", slice_trim(slice_cstr(message))));
}

static enum op_result step_connect(struct op *op)
{
    struct pg_link *link = link_of(op);
    if (link->endpoints.count == 0) {
        struct err why = link->last_err;
        err_prefix(&why, "no address of the database's host is known");
        link_note_failure(link, ERR_IO, why.text);
        return op_jump(op, STEP_REST);
    }
    link->conn = pg_target_connect_start(link->target, &link->endpoints);
    if (!link->conn || PQstatus(link->conn) == CONNECTION_BAD) {
        link_note_failure(link, ERR_IO, link->conn ? PQerrorMessage(link->conn) : "out of memory");
        link_drop_conn(link);
        return op_jump(op, STEP_REST);
    }
    /* libpq's default prints notices to stderr. */
    PQsetNoticeProcessor(link->conn, on_notice, NULL);
    op_hold(op, "pg connect");
    link->is_connecting = true;
    link->is_setting = false;
    timer_start_in_ms(&link->connect_timer, link->connect_timeout_ms);
    link_watch(link, POLL_WRITE); /* libpq wants to begin with PGRES_POLLING_WRITING */
    /* a watch that failed has ended the attempt, and released the hold, within link_watch */
    return link->is_connecting ? OP_WAIT : OP_NEXT;
}

/* Returns NULL if this server is suitable, otherwise the reason why it is not. */
static const char *link_check_server(struct pg_link *link)
{
    if (PQserverVersion(link->conn) < SERVER_VERSION_MIN)
        return "the database is older than PostgreSQL 14, which sluice needs";
    /* Reported by the server at the start of each session, so it costs no query. */
    const char *encoding = PQparameterStatus(link->conn, "server_encoding");
    if (!slice_eq(slice_cstr(encoding), SLICE("UTF8")))
        return "the database's encoding is not UTF8; create it with encoding 'UTF8'";
    /* From here on the connection accepts only the extended protocol: no PQexec, no PQsendQuery. */
    if (link->is_pipeline && !PQenterPipelineMode(link->conn))
        return PQerrorMessage(link->conn);
    return NULL;
}

static enum op_result step_connected(struct op *op)
{
    struct pg_link *link = link_of(op);
    if (!link->conn) {
        return op_jump(op, STEP_REST);
    }
    const char *why = link_check_server(link);
    link_drop_watch(link);
    if (!why)
        link_watch(link, POLL_READ);
    if (!why && !link->watch)
        why = "the database's socket cannot be watched";
    if (why) {
        link_note_failure(link, ERR_IO, why);
        link_drop_conn(link);
        return op_jump(op, STEP_REST);
    }
    /* Reset only now: a server that accepts but turns out unsuitable must get the back-off, too. */
    link->failures = 0;
    link->is_up = true;
    link->connects++;
    op_hold(op, "pg connection");
    link->events->on_up(link);
    /* on_up may have lost the connection, which released the hold. */
    return link->is_up ? OP_WAIT : OP_NEXT;
}

static enum op_result step_again(struct op *op)
{
    return op_jump(op, STEP_REST);
}

static void on_cancel(struct op *op)
{
    struct pg_link *link = link_of(op);
    if (link->is_resolving)
        dns_cancel(&link->query);
    if (link->is_connecting) {
        link_drop_conn(link);
        link_end_attempt(link);
    }
    if (!link->is_up)
        return;
    struct err why;
    err_set(&why, ERR_CLOSED, "closed by this program");
    /* Does the same as pg_link_lost, but this is not a failure: nothing is counted or logged. */
    link->is_up = false;
    link->events->on_down(link, &why);
    link_drop_conn(link);
    op_release(op);
}

static void on_end(struct op *op, enum op_end end)
{
    ASSERT(end == OP_ENDED_CANCELLED);
    /* a connection that was just established and that no step has taken over */
    link_drop_conn(link_of(op));
}

static void on_free(struct op *op)
{
    struct pg_link *link = link_of(op);
    pg_endpoints_deinit(&link->endpoints);
    link->events->on_freed(link);
}

static const struct op_step link_steps[] = {
    [STEP_REST] = {"rest", step_rest, 0},
    [STEP_LOOKUP] = {"lookup", step_lookup, OP_TO(STEP_LOOKUP)},
    [STEP_CONNECT] = {"connect", step_connect, OP_TO(STEP_REST)},
    [STEP_CONNECTED] = {"connected", step_connected, OP_TO(STEP_REST)},
    [STEP_AGAIN] = {"again", step_again, OP_TO(STEP_REST)},
};

static const struct op_class link_class = {
    .name = "pg_link",
    .is_background = true,
    OP_STEPS(link_steps),
    .on_cancel = on_cancel,
    .on_end = on_end,
    .free = on_free,
};

void pg_link_start(struct pg_link *link, struct loop *loop, const struct pg_target *target,
                   struct dns_resolver *dns, uint64_t connect_timeout_ms, bool is_pipeline,
                   const struct pg_link_events *events, void *owner)
{
    ASSERT(loop && target && events && target->host_count > 0);
    *link = (struct pg_link){
        .loop = loop,
        .events = events,
        .owner = owner,
        .target = target,
        .dns = dns,
        .connect_timeout_ms = connect_timeout_ms,
        .is_pipeline = is_pipeline,
    };
    pg_endpoints_init(&link->endpoints);
    timer_init(&link->connect_timer, loop, on_connect_timeout);
    op_start(&link->op, &link_class, loop, NULL, ARENA_CHUNK_MIN);
}

void pg_link_close(struct pg_link *link)
{
    op_cancel(&link->op);
}
