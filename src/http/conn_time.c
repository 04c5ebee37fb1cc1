/*
 * conn_time: the deadlines of a server connection. There are two: one for its present state, and
 * one for the bytes that its client should be reading. UINT64_MAX means no deadline.
 *
 * A time-out alone is not enough: a client that moves one byte every few seconds resets it forever.
 * So bodies and replies must also keep a minimum rate, on average, after a grace time.
 */
#include "http/server_internal.h"

static uint64_t ms(uint64_t value)
{
    return value * 1000000;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Returns the time at which the average rate of `bytes` since from_ns falls below the minimum. */
static uint64_t rate_due(const struct http_server_config *config, uint64_t from_ns, uint64_t bytes)
{
    return from_ns + ms(config->rate_grace_ms) + bytes * 1000000000 / config->rate_bytes_s_min;
}

uint64_t http_conn_write_due(const struct http_conn *conn)
{
    const struct http_server_config *config = &conn->server->config;
    /* No byte waits in this server's queue, so the client has nothing to read. */
    if (conn->pending_before == 0)
        return UINT64_MAX;
    return min_u64(conn->progress_ns + ms(config->reply_timeout_ms),
                   rate_due(config, conn->write_ns, conn->write_bytes - conn->pending_before));
}

static uint64_t head_due(const struct http_conn *conn)
{
    const struct http_server_config *config = &conn->server->config;
    if (http_head_scan_has_begun(&conn->scan))
        return conn->state_ns + ms(config->head_timeout_ms);
    /* This server's own limits block the connection, and writing has its own deadline. */
    if (conn->input.len)
        return UINT64_MAX;
    uint64_t wait_ms = conn->is_first ? config->head_timeout_ms : config->idle_timeout_ms;
    /* The client of an idle connection learns of the drain only when the connection ends. */
    if (conn->server->is_draining && wait_ms > config->linger_timeout_ms)
        wait_ms = config->linger_timeout_ms;
    return conn->state_ns + ms(wait_ms);
}

uint64_t http_conn_state_due(const struct http_conn *conn)
{
    const struct http_server_config *config = &conn->server->config;
    const struct exchange *exchange = conn->exchange;
    switch ((enum conn_state)conn->state) {
    case CONN_HEAD:
        return head_due(conn);
    case CONN_BODY:
        if (exchange->is_body_awaited)
            return conn->state_ns + ms(config->request_timeout_ms);
        return min_u64(conn->state_ns + ms(config->body_timeout_ms),
                       rate_due(config, conn->state_ns, exchange->body_received));
    case CONN_BUSY:
        /* Once a reply has begun, writing has its own deadline (http_conn_write_due). */
        return exchange->is_begun ? UINT64_MAX : conn->state_ns + ms(config->request_timeout_ms);
    case CONN_LINGER:
        /* The client has to read the reply first; the writing side's deadline limits that. */
        if (conn->pending_before)
            return UINT64_MAX;
        /* At most ten times the limit, for a client that never stops sending. */
        return min_u64(conn->progress_ns + ms(config->linger_timeout_ms),
                       conn->state_ns + 10 * ms(config->linger_timeout_ms));
    case CONN_CLOSED:
        break;
    }
    return UINT64_MAX;
}

void http_conn_note_progress(struct http_conn *conn)
{
    size_t pending = stream_write_pending(conn->stream);
    if (pending >= conn->pending_before)
        return;
    conn->progress_ns = loop_now_ns(conn->server->loop);
    conn->pending_before = pending;
    if (pending == 0 && conn->state == CONN_LINGER)
        conn->state_ns = conn->progress_ns; /* lingering begins with the FIN */
}
