/*
 * client_memory: memory for large replies, where the call's owner counts what it uses
 * (base/budget.h). A reply is read only as far as there is memory for it. Meanwhile the connection
 * reads nothing, so TCP's flow control stops the provider: the bytes wait there, not here.
 */
#include "http/client_internal.h"

enum {
    BODY_FREE_BYTES = 64 * 1024, /* of each reply, not asked for */
    WAIT_MS = 30000,             /* where the call has no deadline */
};

static struct budget_use *use_of(const struct http_connection *connection)
{
    return connection->call->owner->arena.use;
}

/* The length is known: all of it is taken at once, or the reply would be stopped halfway for want
 * of the rest. */
bool response_takes_body(struct http_connection *connection, size_t length)
{
    struct http_response *response = &connection->response;
    struct budget_use *use = use_of(connection);
    response->bytes_paid = BODY_FREE_BYTES;
    if (!use || length <= BODY_FREE_BYTES)
        return true;
    response->bytes_paid = length;
    if (budget_use_take(use, length))
        return true;
    /* Both copies exist for a moment: the buffer that collects it and the arena's. */
    response->bytes_wanted = 2 * length; /* it is collected, and copied at its end */
    return false;
}

void response_note_growth(struct http_connection *connection)
{
    struct http_response *response = &connection->response;
    if (!use_of(connection) || response->is_length_known || response->bytes_wanted > 0)
        return;
    if (response->bytes_paid == 0)
        response->bytes_paid = BODY_FREE_BYTES;
    size_t paid = response->bytes_paid;
    /* Doubling, as the buffer grows: few waits, and at most twice what is needed is taken. */
    while (response->body_bytes > response->bytes_paid)
        response->bytes_paid *= 2;
    response->bytes_wanted = 2 * (response->bytes_paid - paid);
}

static void on_memory(struct budget_wait *wait)
{
    struct http_connection *connection = CONTAINER_OF(wait, struct http_connection, memory);
    struct http_call *call = connection->call;
    /* The wait passed its time or its account is over its share; the reply cannot be finished. */
    if (!wait->is_taken) {
        call_fail(call, HTTP_CALL_OVERLOADED, ERR_NOMEM,
                  "there was no memory in time for the reply of %.*s", SLICE_ARG(call->authority));
        return;
    }
    call_set_phase(call, (enum call_state)call->state,
                   loop_now_ns(connection->client->loop) + call->between_bytes_ms * 1000000ull);
    stream_read_start(connection->stream);
}

bool response_waits_for_memory(struct http_connection *connection)
{
    struct http_response *response = &connection->response;
    struct http_call *call = connection->call;
    size_t bytes = response->bytes_wanted;
    if (bytes == 0)
        return false;
    uint64_t now = loop_now_ns(connection->client->loop), wait_ms = WAIT_MS;
    if (call->deadline_ns > 0)
        wait_ms = call->deadline_ns > now ? (call->deadline_ns - now) / 1000000 : 0;
    response->bytes_wanted = 0;
    if (budget_wait_begin(&connection->memory, use_of(connection), bytes, BUDGET_IN_HAND, wait_ms,
                          on_memory))
        return false;
    stream_read_stop(connection->stream);
    /* One second more than the wait, so that the end of that one (no memory) is what the call
     * reports. */
    call_set_phase(call, (enum call_state)call->state, now + (wait_ms + 1000) * 1000000);
    return true;
}
