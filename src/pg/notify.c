/*
 * LISTEN and NOTIFY. Waiting payloads are sent as one statement at the end of a turn.
 *
 * The connection is not in pipeline mode, because notifications arrive between results, and one
 * statement at a time is enough for hints. Payloads queued while the connection is down stay
 * queued, up to PG_NOTIFY_QUEUE_MAX, and are sent once LISTEN is done. Payloads sent on a
 * connection that is then lost may also be lost, so listeners load the changes that they missed
 * when they are called with SLICE_NONE.
 */
#include "pg/notify.h"

#include <stdio.h>

#include "base/map.h"
#include "base/mem.h"
#include "pg/link.h"
#include "pg/value.h"

enum { CHANNEL_MAX = 63 };

struct payload {
    struct list link;
    slice text; /* stored after the struct; also the payload's key in the map */
};

struct pg_notify {
    struct pg_link link;
    struct loop *loop;
    struct loop_hook hook;
    struct loop_garbage garbage;
    struct pg_target *target;
    struct pg_notify_config config;
    char channel[CHANNEL_MAX + 1];
    struct list payloads;
    struct map queued;
    bool is_busy;      /* a statement is under way */
    bool is_listening; /* LISTEN is done */
    bool is_closing;
};

/* ---- the queue ---- */

static void payload_free(struct pg_notify *notify, struct payload *payload)
{
    map_remove(&notify->queued, payload->text);
    list_unlink(&payload->link);
    mem_free(payload);
}

static void payloads_free(struct pg_notify *notify)
{
    LIST_EACH(&notify->payloads, struct payload, payload, link)
        payload_free(notify, payload);
}

void pg_notify_send(struct pg_notify *notify, slice text)
{
    ASSERT(text.len <= PG_NOTIFY_BYTES_MAX);
    /* An equal payload is already queued for the end of this turn. */
    if (map_get(&notify->queued, text))
        return;
    struct payload *payload = mem_alloc(sizeof(*payload) + text.len);
    if (!payload)
        return;
    list_init(&payload->link);
    payload->text = slice_of(payload + 1, text.len);
    if (text.len)
        memcpy(payload + 1, text.ptr, text.len);
    if (map_put(&notify->queued, payload->text, payload, NULL) != OK) {
        mem_free(payload); /* the queue is full; a hint may be dropped */
        return;
    }
    list_push_back(&notify->payloads, &payload->link);
}

/* ---- statements ---- */

static void append_be32(struct buf *out, uint32_t value)
{
    value = __builtin_bswap32(value);
    buf_append(out, slice_of(&value, sizeof(value)));
}

/* Encodes all queued payloads as a text[] and empties the queue. The array is encoded as by
 * pg_array_encode: number of dimensions, no nulls, the Oid of text, size, lower bound, elements. */
static void take_payloads(struct pg_notify *notify, struct buf *out)
{
    append_be32(out, 1);
    append_be32(out, 0);
    append_be32(out, 25);
    append_be32(out, (uint32_t)notify->queued.count);
    append_be32(out, 1);
    LIST_EACH(&notify->payloads, struct payload, payload, link) {
        append_be32(out, (uint32_t)payload->text.len);
        buf_append(out, payload->text);
        payload_free(notify, payload);
    }
}

static void on_turn_end(struct loop_hook *hook)
{
    struct pg_notify *notify = CONTAINER_OF(hook, struct pg_notify, hook);
    if (list_is_empty(&notify->payloads) || !notify->is_listening || notify->is_busy)
        return;
    struct buf array;
    /* An upper bound: 8 bytes per element cover its length, 64 the header. */
    buf_init(&array, (size_t)PG_NOTIFY_QUEUE_MAX * (PG_NOTIFY_BYTES_MAX + 8) + 64);
    take_payloads(notify, &array);
    /* The channel is sent as text (format 0), where libpq ignores the length. 25 and 1009 are
     * text and text[] in pg_type. */
    const char *values[] = {notify->channel, array.ptr};
    int lengths[] = {0, (int)array.len}, formats[] = {0, 1};
    Oid oids[] = {25, 1009};
    bool is_sent = buf_is_ok(&array) &&
                   PQsendQueryParams(notify->link.conn,
                                     "select pg_notify($1, p) from unnest($2) as p", 2, oids,
                                     values, lengths, formats, 1);
    buf_deinit(&array);
    if (!is_sent)
        return; /* hints are lost; a broken connection is noticed separately */
    notify->is_busy = true;
    pg_link_flush(&notify->link);
}

/* ---- the connection ---- */

static void on_up(struct pg_link *link)
{
    struct pg_notify *notify = link->owner;
    char sql[CHANNEL_MAX + 16];
    /* LISTEN takes no parameters. The name is a constant of this program, so it needs no
     * escaping. */
    snprintf(sql, sizeof(sql), "listen \"%s\"", notify->channel);
    notify->is_busy = PQsendQuery(link->conn, sql);
    if (!notify->is_busy) {
        pg_link_lost(link, ERR_CLOSED, PQerrorMessage(link->conn));
        return;
    }
    pg_link_flush(link);
}

/* Returns false if the connection is lost. */
static bool take_results(struct pg_notify *notify)
{
    PGconn *conn = notify->link.conn;
    while (notify->is_busy && !PQisBusy(conn)) {
        PGresult *result = PQgetResult(conn);
        if (result) {
            bool is_ok = PQresultStatus(result) == PGRES_COMMAND_OK ||
                         PQresultStatus(result) == PGRES_TUPLES_OK;
            PQclear(result);
            if (is_ok)
                continue;
            /* A refused LISTEN cannot be repaired here, and a failed NOTIFY is rare: a new
             * connection tries both again. */
            pg_link_lost(&notify->link, ERR_IO, PQerrorMessage(conn));
            return false;
        }
        notify->is_busy = false;
        if (notify->is_listening)
            continue;
        /* From here on no notification is missed; the call covers changes before LISTEN took
         * effect. */
        notify->is_listening = true;
        notify->config.on_notify(notify->config.owner, SLICE_NONE);
    }
    return true;
}

static void on_readable(struct pg_link *link)
{
    struct pg_notify *notify = link->owner;
    if (!take_results(notify))
        return;
    PGnotify *note;
    /* The callback may call pg_notify_free, after which conn is NULL. The note itself belongs to
     * the caller. */
    while (!notify->is_closing && (note = PQnotifies(link->conn))) {
        notify->config.on_notify(notify->config.owner, slice_cstr(note->extra));
        PQfreemem(note);
    }
}

static void on_down(struct pg_link *link, const struct err *why)
{
    struct pg_notify *notify = link->owner;
    (void)why;
    /* Payloads stay queued for the next connection. */
    notify->is_busy = notify->is_listening = false;
}

static void free_memory(struct loop_garbage *garbage)
{
    struct pg_notify *notify = CONTAINER_OF(garbage, struct pg_notify, garbage);
    payloads_free(notify);
    map_deinit(&notify->queued);
    pg_target_free(notify->target);
    mem_free(notify);
}

static void on_freed(struct pg_link *link)
{
    struct pg_notify *notify = link->owner;
    notify->garbage.free = free_memory;
    loop_garbage_add(notify->loop, &notify->garbage);
}

static const struct pg_link_events notify_events = {
    .on_up = on_up,
    .on_readable = on_readable,
    .on_down = on_down,
    .on_freed = on_freed,
};

struct pg_notify *pg_notify_new(struct loop *loop, const struct pg_notify_config *config,
                                struct err *err)
{
    ASSERT(config->on_notify && strlen(config->channel) <= CHANNEL_MAX);
    struct pg_notify *notify = mem_zalloc(sizeof(*notify));
    if (!notify)
        return err_null(err, ERR_NOMEM, "out of memory");
    notify->loop = loop;
    notify->config = *config;
    snprintf(notify->channel, sizeof(notify->channel), "%s", config->channel);
    list_init(&notify->payloads);
    map_init(&notify->queued, PG_NOTIFY_QUEUE_MAX);
    notify->target = pg_target_new(config->conninfo, NULL, "('statement_timeout','10000')", err);
    if (!notify->target) {
        free_memory(&notify->garbage);
        return NULL;
    }
    notify->hook.run = on_turn_end;
    loop_hook_add(loop, &notify->hook, LOOP_PHASE_DATABASE);
    pg_link_start(&notify->link, loop, notify->target, config->dns, 5000, false, &notify_events,
                  notify);
    notify->link.first_rest_ms = PG_LINK_SPARE_MS;
    return notify;
}

void pg_notify_free(struct pg_notify *notify)
{
    if (!notify)
        return;
    ASSERT(!notify->is_closing);
    notify->is_closing = true;
    loop_hook_remove(&notify->hook);
    pg_link_close(&notify->link);
}
