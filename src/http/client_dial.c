/*
 * client_dial: makes one connection for one call: name, address check, TCP (each address in turn),
 * TLS. Through a proxy, for each address that passed the check: the proxy's name, TCP to the proxy,
 * CONNECT. The call's timer limits the whole dial; each attempt but the last gets a share of the
 * remaining time, so that an address that does not answer leaves time for the next. If the call
 * ends first, the dial is cancelled and ends by itself: dial->call is then NULL and no further step
 * runs, so steps use dial->call without a test.
 */
#include <netinet/in.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "http/client_internal.h"
#include "loop/tcp.h"

static struct metric dials = METRIC_INIT("sluice_http_client_dials_total",
                                         "New outbound connections that were tried, by result.",
                                         METRIC_COUNTER);
static struct metric dns_time = METRIC_INIT("sluice_http_client_dns_seconds",
                                            "Time to find a host's addresses, also from the cache.",
                                            METRIC_HISTOGRAM);
static struct metric connect_time = METRIC_INIT(
    "sluice_http_client_connect_seconds", "Time to connect to one address.", METRIC_HISTOGRAM);
static struct metric tls_time = METRIC_INIT("sluice_http_client_tls_seconds",
                                            "Time of a TLS handshake, including the wait for it.",
                                            METRIC_HISTOGRAM);

struct http_dial {
    struct op op; /* first member */
    struct http_client *client;
    struct http_origin *origin;
    struct http_call *call; /* NULL once the call has ended */
    struct dns_query query; /* resolves the host to connect to: the proxy's, if there is one */
    size_t address_index;
    struct dns_addresses targets; /* the addresses of a proxied origin */
    size_t target_index;
    char target[ADDRESS_TEXT_MAX]; /* the address that the proxy connects to */
    struct buf proxy_head;         /* the proxy's reply */
    bool is_at_proxy;              /* the dial waits for the proxy's name, TCP or tunnel */
    struct stream *stream;         /* connecting, or handshaking */
    bool is_held;                  /* the stream holds the op */
    bool is_open;                  /* the last step of the stream succeeded */
    struct err why;                /* why the last step of the stream failed */
    enum http_call_result result;
    struct timer attempt;
    struct tls_context *tls; /* the context at the start of the dial */
    uint64_t step_began_ns;
    char remote[ADDRESS_TEXT_MAX];
};

OP_OF(dial_of, http_dial)

static uint64_t dial_lap(struct http_dial *dial)
{
    uint64_t now = loop_now_ns(dial->client->loop);
    uint64_t took = now - dial->step_began_ns;
    dial->step_began_ns = now;
    return took;
}

static enum op_result dial_failed(struct http_dial *dial, enum http_call_result result)
{
    dial->result = result;
    ASSERT(dial->why.code != OK);
    return OP_FAIL;
}

/* ---- events of the stream, TCP first, then TLS ---- */

static void dial_wake(struct http_dial *dial)
{
    /* Both the timer and a close may end a wait; only the first of them finds the hold. */
    timer_stop(&dial->attempt);
    if (!dial->is_held)
        return;
    dial->is_held = false;
    op_release(&dial->op);
}

static void dial_hold(struct http_dial *dial, const char *what)
{
    ASSERT(!dial->is_held);
    dial->is_held = true;
    dial->is_open = false;
    /* The code is cleared for this wait, because on_closed keeps a reason that is already set. */
    dial->why.code = OK;
    op_hold(&dial->op, what);
}

static void on_open(struct stream *stream, void *owner)
{
    struct http_dial *dial = owner;
    ASSERT(dial->stream == stream);
    dial->is_open = true;
    dial_wake(dial);
}

static void on_closed(struct stream *stream, void *owner, const struct err *why)
{
    struct http_dial *dial = owner;
    ASSERT(dial->stream == stream);
    dial->stream = NULL;
    dial->is_open = false;
    /* A reason that was set earlier (by the attempt's timer) is more precise. */
    if (dial->why.code == OK)
        dial->why = *why;
    dial_wake(dial);
}

/* The dial must exist until the stream's on_closed. */
static void dial_close_stream(struct http_dial *dial)
{
    if (!dial->stream)
        return;
    /* on_closed needs a dial that still exists, which only a hold guarantees. */
    if (!dial->is_held) {
        dial->is_held = true;
        op_hold(&dial->op, "close");
    }
    stream_close(dial->stream);
}

/* Nothing is read before the connection owns the stream: it starts paused. Data that TLS
 * delivers between its on_open and the next drain stays in the session. Bytes or an end that
 * arrive anyway come from a server that sends before any request; such a stream is closed. */
static void on_early_read(struct stream *stream, void *owner, slice bytes)
{
    struct http_dial *dial = owner;
    if (!dial->is_at_proxy || !dial->is_held) {
        dial_close_stream(dial);
        return;
    }
    buf_append(&dial->proxy_head, bytes);
    if (buf_is_ok(&dial->proxy_head) && !proxy_is_head_whole(&dial->proxy_head))
        return;
    stream_read_stop(stream);
    dial->is_open = buf_is_ok(&dial->proxy_head);
    dial_wake(dial);
}

static void on_early_eof(struct stream *stream, void *owner, bool is_clean)
{
    (void)stream, (void)is_clean;
    dial_close_stream(owner);
}

static const struct stream_events dial_events = {
    on_open, on_early_read, on_early_eof, NULL, on_closed,
};

/* Only the operator's log says what a name resolves to, or that it does not exist: the host may be
 * internal, and the tenant that named it must not learn about it. */
static void log_address(struct op *op, const char *event, const char *address, const char *cause)
{
    op_log(op, LOG_INFO, event, LOG_CSTR("host", dial_of(op)->origin->host),
           LOG_CSTR("address", address), LOG_CSTR("cause", cause));
}

/* ---- steps ---- */

enum {
    STEP_RESOLVE,
    STEP_RESOLVED,
    STEP_TARGET,
    STEP_FOUND_PROXY,
    STEP_ADDRESS,
    STEP_CONNECTED,
    STEP_TUNNELLED,
    STEP_SECURED
};

enum { PROXY_HEAD_BYTES_MAX = 8 * 1024 };

static enum op_result step_resolve(struct op *op)
{
    struct http_dial *dial = dial_of(op);
    const struct http_call *call = dial->call;
    dial->step_began_ns = loop_now_ns(op->loop);
    dial->query.host = slice_cstr(dial->origin->host);
    dial->query.deadline_ns = call->phase_due_ns;
    /* The lookup may take as long as the whole connection, but not longer than the call. */
    if (call->deadline_ns && call->deadline_ns < call->phase_due_ns)
        dial->query.deadline_ns = call->deadline_ns;
    dns_resolve(dial->client->config.resolver, &dial->query, op);
    return OP_WAIT;
}

/* If a tenant gave the host, a name that does not exist gets the same answer as one inside the
 * network: a difference would reveal which internal names exist. */
static bool is_name_hidden(const struct http_dial *dial)
{
    const struct http_origin *origin = dial->origin;
    return dial->query.status == ERR_NOTFOUND && dial->call->is_host_given &&
           !origin->is_override &&
           !address_policy_is_host_allowed(dial->client->config.policy, slice_cstr(origin->host),
                                           origin->port);
}

static enum op_result step_resolved(struct op *op)
{
    struct http_dial *dial = dial_of(op);
    uint64_t took = dial_lap(dial);
    dial->call->dns_ns += took;
    metric_time(&dns_time, took);
    if (dial->query.status == OK) {
        ASSERT(dial->query.address_count > 0);
        if (!dial->origin->is_proxied)
            return op_jump(op, STEP_ADDRESS);
        dial->targets.count = dial->query.address_count;
        memcpy(dial->targets.list, dial->query.addresses, sizeof(dial->targets.list));
        return OP_NEXT;
    }
    if (is_name_hidden(dial)) {
        log_address(op, "outbound name not found", "", dial->query.err.text);
        (void)address_policy_refuse(slice_cstr(dial->origin->host), &dial->why);
        return dial_failed(dial, HTTP_CALL_ADDRESS_REFUSED);
    }
    dial->why = dial->query.err;
    if (dial->query.status == ERR_TIMEOUT)
        return dial_failed(dial, HTTP_CALL_TIMEOUT_CONNECT);
    if (dial->query.status == ERR_BUSY || dial->query.status == ERR_NOMEM)
        return dial_failed(dial, HTTP_CALL_OVERLOADED);
    return dial_failed(dial, HTTP_CALL_DNS);
}

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)address)->sin_port = htons(port);
    else if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons(port);
}

static void on_attempt_due(struct timer *timer)
{
    /* The message is set first, since dial_close_stream leads to on_closed, which keeps it. */
    struct http_dial *dial = CONTAINER_OF(timer, struct http_dial, attempt);
    err_set(&dial->why, ERR_TIMEOUT, "an address did not answer within its share of the time");
    dial_close_stream(dial);
}

/* Starts the timer with one address's share of the remaining time. The last address is limited only
 * by the call's own timer. */
static void dial_arm_attempt(struct http_dial *dial)
{
    /* Divided by the number of addresses left, including this one: of three addresses the first
     * gets a third. The indices have been advanced already, so `left` counts the addresses after
     * this one. */
    size_t left =
        dial->query.address_count - dial->address_index + dial->targets.count - dial->target_index;
    uint64_t now = loop_now_ns(dial->client->loop);
    if (left > 0 && dial->query.deadline_ns > now)
        timer_start(&dial->attempt, now + (dial->query.deadline_ns - now) / (left + 1));
}

/* Every address is checked, not only the name: an answer with a public address may contain a
 * private one, too. */
static bool may_connect(struct http_dial *dial, const struct sockaddr *address)
{
    const struct http_origin *origin = dial->origin;
    char text[ADDRESS_TEXT_MAX];
    if (origin->is_override ||
        address_policy_check(dial->client->config.policy, slice_cstr(origin->host), origin->port,
                             address, &dial->why) == OK)
        return true;
    address_format(address, text);
    log_address(&dial->op, "outbound address refused", text, address_special(address));
    dial->result = HTTP_CALL_ADDRESS_REFUSED;
    return false;
}

static enum op_result step_target(struct op *op)
{
    struct http_dial *dial = dial_of(op);
    const struct http_proxy *proxy = dial->client->proxy;
    struct sockaddr_storage *target;
    do {
        if (dial->target_index == dial->targets.count)
            return dial_failed(dial, dial->result);
        target = &dial->targets.list[dial->target_index++];
        set_port(target, dial->origin->port);
    } while (!may_connect(dial, (const struct sockaddr *)target));
    address_format((const struct sockaddr *)target, dial->target);
    dial->is_at_proxy = true;
    dial->query.host = proxy_host(proxy);
    dns_resolve(dial->client->config.resolver, &dial->query, op);
    return OP_WAIT;
}

static enum op_result step_found_proxy(struct op *op)
{
    struct http_dial *dial = dial_of(op);
    dial->call->dns_ns += dial_lap(dial);
    dial->address_index = 0;
    if (dial->query.status == OK)
        return OP_NEXT;
    log_address(op, "outbound proxy failed", "", dial->query.err.text);
    err_set(&dial->why, ERR_IO, "the proxy has no address");
    return dial_failed(dial, dial->query.status == ERR_BUSY || dial->query.status == ERR_NOMEM
                                 ? HTTP_CALL_OVERLOADED
                                 : HTTP_CALL_PROXY);
}

static enum op_result step_address(struct op *op)
{
    struct http_dial *dial = dial_of(op);
    const struct http_origin *origin = dial->origin;
    if (dial->address_index == dial->query.address_count)
        return dial_failed(dial, dial->result);
    /* The address is taken before it is tried: each jump back here gets the next address, so the
     * loop ends after address_count rounds. */
    struct sockaddr_storage *address = &dial->query.addresses[dial->address_index++];
    struct sockaddr *generic = (struct sockaddr *)address;
    set_port(address, origin->is_proxied ? proxy_port(dial->client->proxy) : origin->port);
    if (!origin->is_proxied && !may_connect(dial, generic))
        return op_jump(op, STEP_ADDRESS);
    dial->result = origin->is_proxied ? HTTP_CALL_PROXY : HTTP_CALL_CONNECT;
    address_format(generic, dial->remote);
    dial->why.code = OK;
    /* twice the queue, for the bytes that TLS adds to CLIENT_STREAM_QUEUE */
    dial->stream =
        tcp_connect(op->loop, generic, CLIENT_STREAM_QUEUE * 2, &dial_events, dial, &dial->why);
    if (!dial->stream) /* no descriptor, no memory */
        return dial_failed(dial, HTTP_CALL_OVERLOADED);
    if (dial->call)
        stream_read_for(dial->stream, dial->call->tenant, false);
    dial_hold(dial, "tcp connect");
    dial_arm_attempt(dial);
    return OP_WAIT;
}

/* Starts the handshake; STEP_SECURED handles its end. */
static enum op_result start_tls(struct http_dial *dial)
{
    /* The name of the URL, not the address: SNI and the certificate are checked against it (RFC
     * 9110 4.3.4). */
    struct tls_client_config config = {
        .server_name = slice_cstr(dial->origin->host),
        .origin = dial->origin->key,
        .write_bytes_max = CLIENT_STREAM_QUEUE,
    };
    dial->is_at_proxy = false;
    /* The TLS stream takes over the TCP stream: from here on closing it closes both. */
    struct stream *tls =
        tls_client_start(dial->tls, dial->stream, &config, &dial_events, dial, &dial->why);
    if (!tls)
        return dial_failed(dial,
                           dial->why.code == ERR_NOMEM ? HTTP_CALL_OVERLOADED : HTTP_CALL_TLS);
    dial->stream = tls;
    dial_hold(dial, "tls handshake");
    return op_wait_then(&dial->op, STEP_SECURED);
}

static enum op_result start_tunnel(struct http_dial *dial)
{
    buf_clear(&dial->proxy_head);
    dial_hold(dial, "the proxy");
    stream_read_start(dial->stream);
    dial_arm_attempt(dial);
    if (proxy_ask(dial->client->proxy, dial->stream, dial->target) != OK)
        dial_close_stream(dial); /* the stream's on_closed has the reason */
    return OP_WAIT;
}

static enum op_result step_connected(struct op *op)
{
    struct http_dial *dial = dial_of(op);
    uint64_t took = dial_lap(dial);
    dial->call->connect_ns += took;
    if (!dial->is_open) {
        log_address(op, "outbound connection failed", dial->remote, dial->why.text);
        /* The reason is kept in case this is the last address: step_address reports it then. */
        err_prefix(&dial->why, "cannot connect to %s",
                   dial->origin->is_proxied ? "the proxy" : dial->origin->host);
        return op_jump(op, STEP_ADDRESS);
    }
    metric_time(&connect_time, took);
    if (dial->origin->is_proxied)
        return start_tunnel(dial);
    return dial->origin->is_https ? start_tls(dial) : OP_DONE;
}

/* Writes the reason why there is no tunnel, for tenant and operator. It contains neither the
 * proxy's address nor the proxy's own text. */
static void explain_refusal(struct http_dial *dial, unsigned status)
{
    if (status == 407)
        err_set(&dial->why, ERR_REFUSED, "the proxy refused the operator's credentials (HTTP 407)");
    else if (status > 0)
        err_set(&dial->why, ERR_REFUSED, "the proxy did not connect to %s (HTTP %u)",
                dial->origin->host, status);
    else if (dial->proxy_head.len > 0)
        err_set(&dial->why, ERR_SYNTAX, "the proxy did not answer CONNECT with HTTP");
    else if (dial->why.code == ERR_TIMEOUT)
        err_set(&dial->why, ERR_TIMEOUT, "the proxy did not answer CONNECT in time");
    else
        err_set(&dial->why, ERR_CLOSED, "the proxy closed the connection before it answered");
}

static enum op_result step_tunnelled(struct op *op)
{
    struct http_dial *dial = dial_of(op);
    unsigned status = 0;
    dial->call->connect_ns += dial_lap(dial);
    bool is_read = dial->is_open && proxy_read_head(&dial->proxy_head, &status) == OK;
    if (is_read && status / 100 == 2 && dial->stream)
        return start_tls(dial);
    explain_refusal(dial, is_read ? status : 0);
    log_address(op, "outbound proxy failed", dial->remote, dial->why.text);
    dial->result = HTTP_CALL_PROXY;
    /* A 4xx status means that the proxy refuses the client, not the address. */
    if (status / 100 == 4)
        return dial_failed(dial, HTTP_CALL_PROXY);
    if (!dial->stream)
        return op_jump(op, STEP_TARGET);
    dial_close_stream(dial);
    return op_wait_then(op, STEP_TARGET);
}

static enum op_result step_secured(struct op *op)
{
    struct http_dial *dial = dial_of(op);
    uint64_t took = dial_lap(dial);
    dial->call->tls_ns += took;
    if (dial->is_open) {
        metric_time(&tls_time, took);
        return OP_DONE;
    }
    /* A failed handshake is not retried with a second address: the server was reached, and would
     * send the same certificate. */
    return dial_failed(dial, dial->why.code == ERR_NOMEM ? HTTP_CALL_OVERLOADED : HTTP_CALL_TLS);
}

static const struct op_step dial_steps[] = {
    [STEP_RESOLVE] = {"resolve", step_resolve, 0},
    [STEP_RESOLVED] = {"resolved", step_resolved, OP_TO(STEP_ADDRESS)},
    [STEP_TARGET] = {"target", step_target, 0},
    [STEP_FOUND_PROXY] = {"found_proxy", step_found_proxy, 0},
    [STEP_ADDRESS] = {"address", step_address, OP_TO(STEP_ADDRESS)},
    [STEP_CONNECTED] = {"connected", step_connected, OP_TO(STEP_ADDRESS) | OP_TO(STEP_SECURED)},
    [STEP_TUNNELLED] = {"tunnelled", step_tunnelled, OP_TO(STEP_TARGET) | OP_TO(STEP_SECURED)},
    [STEP_SECURED] = {"secured", step_secured, 0},
};

/* ---- the end ---- */

/* Moves the connection from the dial to the pool; the call continues there. */
static void dial_hand_over(struct http_dial *dial)
{
    struct http_call *call = dial->call;
    struct stream *stream = dial->stream;
    struct http_connection *connection = connection_new(dial->origin, stream);
    if (!connection) {
        call_fail(call, HTTP_CALL_OVERLOADED, ERR_NOMEM, "out of memory for a connection");
        return;
    }
    /* Links are cut from both sides before the call continues, since that may end the call. */
    dial->stream = NULL;
    dial->call = NULL;
    call->dial = NULL;
    connection->tls = dial->tls;
    connection->is_resumed = dial->tls && tls_client_info(stream).is_resumed;
    /* The text of the address moves to the connection, which reports the address even when it is
     * reused. */
    memcpy(connection->remote, dial->remote, sizeof(connection->remote));
    if (!connection_send(connection, call))
        call_fail(call, HTTP_CALL_RESET, ERR_CLOSED,
                  "%.*s closed the connection before the request could be sent",
                  SLICE_ARG(call->authority));
}

static void on_end(struct op *op, enum op_end end)
{
    struct http_dial *dial = dial_of(op);
    struct http_call *call = dial->call;
    timer_stop(&dial->attempt);
    const char *label = end == OP_ENDED_DONE     ? "result=\"ok\""
                        : end == OP_ENDED_FAILED ? "result=\"failed\""
                                                 : "result=\"cancelled\"";
    if (!dial->client->config.is_apart)
        metric_add(metric_series(&dials, slice_cstr(label)), 1);
    /* stream may be NULL after the last step succeeded: the peer closed in between. */
    if (call && end == OP_ENDED_DONE && dial->stream) {
        dial_hand_over(dial);
    } else if (call) { /* OP_ENDED_DONE without a stream: the stream closed after the last step */
        call->err = dial->why;
        if (call->err.code == OK)
            err_set(&call->err, ERR_CLOSED, "%.*s closed the new connection",
                    SLICE_ARG(call->authority));
        memcpy(call->remote, dial->remote, sizeof(call->remote));
        call_finish(call, end == OP_ENDED_DONE ? HTTP_CALL_RESET : dial->result);
    }
    /* After the hand-over the connection owns the stream, and nothing is left to close here. */
    dial_close_stream(dial);
}

static void on_cancel(struct op *op)
{
    struct http_dial *dial = dial_of(op);
    dns_cancel(&dial->query);
    dial_close_stream(dial);
}

static void dial_free(struct op *op)
{
    struct http_dial *dial = dial_of(op);
    struct http_origin *origin = dial->origin;
    struct http_client *client = dial->client;
    ASSERT(!dial->call && !dial->is_held);
    tls_context_unref(dial->tls);
    buf_deinit(&dial->proxy_head);
    mem_free(dial);
    /* The counts are decremented only now: until its memory is freed the dial still has a
     * descriptor. */
    origin->dial_count--;
    client->dial_count--;
    slot_room_came(client);
    origin_collect(origin);
    client_unref(client);
}

static const struct op_class dial_class = {
    .name = "http dial",
    OP_STEPS(dial_steps),
    .on_cancel = on_cancel,
    .on_end = on_end,
    .free = dial_free,
};

struct http_dial *dial_start(struct http_call *call)
{
    struct http_client *client = call->client;
    struct http_dial *dial = mem_zalloc(sizeof(*dial));
    if (!dial)
        return NULL;
    dial->client = client;
    dial->origin = call->origin;
    dial->call = call;
    dial->result = HTTP_CALL_CONNECT;
    /* A separate reference: a reload of the roots must not change them in the middle of a
     * handshake. */
    dial->tls = call->origin->is_https ? tls_context_ref(client->tls) : NULL;
    buf_init(&dial->proxy_head, PROXY_HEAD_BYTES_MAX);
    timer_init(&dial->attempt, client->loop, on_attempt_due);
    client->refs++;
    client->dial_count++;
    call->origin->dial_count++;
    op_start(&dial->op, &dial_class, client->loop, NULL, 0);
    /* Borrowed from the owner's op, for log lines; dial_abandon clears them before the op may be
     * freed. */
    dial->op.request_id = call->owner->request_id;
    dial->op.account_id = call->owner->account_id;
    return dial;
}

bool dial_waits_for_proxy(const struct http_dial *dial)
{
    return dial->is_at_proxy;
}

void dial_abandon(struct http_dial *dial)
{
    ASSERT(dial->call && dial->call->dial == dial);
    dial->call->dial = NULL;
    dial->call = NULL;
    timer_stop(&dial->attempt);
    /* borrowed from the owner, which may be freed now */
    dial->op.request_id = dial->op.account_id = SLICE_NONE;
    op_cancel(&dial->op);
}
