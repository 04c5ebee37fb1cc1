/*
 * client_response: reads replies with llhttp in its strict mode, and additional checks for what
 * llhttp does not refuse. The head is collected in scratch memory that the client keeps, then
 * copied once into the owner's arena. A body of known length is read directly into the arena; any
 * other body is collected and copied once at its end.
 *
 * A provider is not trusted either: every count and size of a reply is bounded, and a reply that
 * two readers could understand differently is refused (a proxy in between may have read it the
 * other way).
 */
#include "base/mem.h"
#include "http/client_internal.h"

/* Limits what framing may add to the body: head, chunk sizes and extensions, trailers. */
enum {
    OVERHEAD_PER_BODY_BYTE = 8,
    BODY_FREE_BYTES = 64 * 1024, /* body bytes of a reply that need no reservation */
    WAIT_MS = 30000,             /* the wait for memory, if the call has no deadline */
};

static const llhttp_settings_t settings;

static struct http_connection *connection_of(llhttp_t *parser)
{
    return parser->data;
}

static int refuse_response(struct http_connection *connection, enum http_call_result result,
                           enum err_code code, const char *why)
{
    struct http_response *response = &connection->response;
    struct http_call *call = connection->call;
    /* The first reason is kept: later reasons are consequences of the stop. */
    if (response->is_failed)
        return -1;
    response->is_failed = true;
    response->result = result;
    err_set(&call->err, code, "the reply of %.*s %s", SLICE_ARG(call->authority), why);
    return -1;
}

static int refuse_response_protocol(struct http_connection *connection, const char *why)
{
    return refuse_response(connection, HTTP_CALL_PROTOCOL, ERR_SYNTAX, why);
}

static int refuse_response_memory(struct http_connection *connection)
{
    return refuse_response(connection, HTTP_CALL_OVERLOADED, ERR_NOMEM, "does not fit into memory");
}

/* ---- memory for large replies ---- The call's owner counts what it uses (base/budget.h). A reply
 * is read only while there is memory for it. Meanwhile the connection reads nothing, so TCP's flow
 * control stops the provider: the bytes wait there, not here. */

static struct budget_use *use_of(const struct http_connection *connection)
{
    return connection->call->owner->arena.use;
}

/* Returns false if there is no memory for the body yet; it is then collected as if its length were
 * unknown. With a known length memory for all of it is taken at once; otherwise the reply could
 * stop halfway for lack of memory. */
static bool response_takes_body(struct http_connection *connection, size_t length)
{
    struct http_response *response = &connection->response;
    struct budget_use *use = use_of(connection);
    response->bytes_paid = BODY_FREE_BYTES;
    if (!use || length <= BODY_FREE_BYTES)
        return true;
    response->bytes_paid = length;
    if (budget_use_take(use, length))
        return true;
    /* Two copies exist for a moment: one in the buffer that collects the body and one in the
     * arena. */
    response->bytes_wanted = 2 * length; /* the body is collected, and copied at its end */
    return false;
}

/* Called when more of a body of unknown length has arrived. */
static void response_note_growth(struct http_connection *connection)
{
    struct http_response *response = &connection->response;
    if (!use_of(connection) || response->is_length_known || response->bytes_wanted > 0)
        return;
    if (response->bytes_paid == 0)
        response->bytes_paid = BODY_FREE_BYTES;
    size_t paid = response->bytes_paid;
    /* The reservation doubles, as the buffer does, so there are few waits and at most twice the
     * necessary memory is reserved. */
    while (response->body_bytes > response->bytes_paid)
        response->bytes_paid *= 2;
    response->bytes_wanted = 2 * (response->bytes_paid - paid);
}

static void on_memory(struct budget_wait *wait)
{
    struct http_connection *connection = CONTAINER_OF(wait, struct http_connection, memory);
    struct http_call *call = connection->call;
    /* The wait has timed out, or the account is over its share: the reply cannot be finished. */
    if (!wait->is_taken) {
        call_fail(call, HTTP_CALL_OVERLOADED, ERR_NOMEM,
                  "timed out waiting for memory for the reply of %.*s", SLICE_ARG(call->authority));
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
    /* One second more than the wait, so that the call reports the end of the wait (no memory). */
    call_set_phase(call, (enum call_state)call->state, now + (wait_ms + 1000) * 1000000);
    return true;
}

/* ---- scratch for heads ---- */

static struct head_scratch *scratch_take(struct http_client *client)
{
    /* One spare for all connections: heads are read one after the other, and usually within one
     * turn. */
    struct head_scratch *scratch = client->spare_scratch;
    client->spare_scratch = NULL;
    if (scratch)
        return scratch;
    scratch = mem_zalloc(sizeof(*scratch));
    if (!scratch)
        return NULL;
    buf_init(&scratch->text, HTTP_CALL_RESPONSE_HEAD_MAX);
    buf_init(&scratch->fields, HTTP_CALL_RESPONSE_HEADERS_MAX * sizeof(struct head_field));
    return scratch;
}

static void scratch_give(struct http_connection *connection)
{
    struct http_client *client = connection->client;
    struct head_scratch *scratch = connection->response.scratch;
    connection->response.scratch = NULL;
    if (!scratch)
        return;
    if (scratch->text.len)
        /* the head may contain secrets, such as Set-Cookie */
        mem_wipe(scratch->text.ptr, scratch->text.len);
    buf_clear(&scratch->text);
    buf_clear(&scratch->fields);
    if (!client->spare_scratch) {
        client->spare_scratch = scratch;
        return;
    }
    buf_deinit(&scratch->text);
    buf_deinit(&scratch->fields);
    mem_free(scratch);
}

static struct head_field *field_at(struct head_scratch *scratch, size_t index)
{
    return (struct head_field *)(void *)scratch->fields.ptr + index;
}

static size_t field_count(const struct head_scratch *scratch)
{
    return scratch->fields.len / sizeof(struct head_field);
}

/* ---- the head ---- */

static int on_message_begin(llhttp_t *parser)
{
    struct http_connection *connection = connection_of(parser);
    struct http_response *response = &connection->response;
    /* An interim reply (1xx) begins a message, too: the same scratch serves the final reply. */
    if (!response->scratch)
        response->scratch = scratch_take(connection->client);
    if (!response->scratch)
        return refuse_response_memory(connection);
    buf_clear(&response->scratch->text);
    buf_clear(&response->scratch->fields);
    response->is_value_open = false;
    response->is_head_done = false;
    return 0;
}

static int head_append(struct http_connection *connection, const char *at, size_t len)
{
    struct buf *text = &connection->response.scratch->text;
    /* Some parsers accept NUL; for others it ends the text. */
    if (memchr(at, '\0', len))
        return refuse_response_protocol(connection, "has a NUL byte in its head");
    buf_append(text, slice_of(at, len));
    if (buf_is_ok(text))
        return 0;
    if (text->len + len > HTTP_CALL_RESPONSE_HEAD_MAX)
        return refuse_response_protocol(connection, "has a head that is too large");
    return refuse_response_memory(connection);
}

static int on_header_field(llhttp_t *parser, const char *at, size_t len)
{
    struct http_connection *connection = connection_of(parser);
    struct http_response *response = &connection->response;
    struct head_scratch *scratch = response->scratch;
    if (response->is_head_done) /* a trailer: bounded as overhead, not kept */
        return 0;
    /* llhttp delivers a name in pieces, as the bytes arrive; a name after a value begins a new
     * field. */
    if (response->is_value_open || field_count(scratch) == 0) {
        struct head_field field = {.name_at = (uint32_t)scratch->text.len};
        if (field_count(scratch) == HTTP_CALL_RESPONSE_HEADERS_MAX)
            return refuse_response_protocol(connection, "has too many headers");
        buf_append(&scratch->fields, slice_of(&field, sizeof(field)));
        if (!buf_is_ok(&scratch->fields))
            return refuse_response_memory(connection);
        response->is_value_open = false;
    }
    field_at(scratch, field_count(scratch) - 1)->name_len += (uint32_t)len;
    return head_append(connection, at, len);
}

static int on_header_value(llhttp_t *parser, const char *at, size_t len)
{
    struct http_connection *connection = connection_of(parser);
    struct http_response *response = &connection->response;
    struct head_scratch *scratch = response->scratch;
    if (response->is_head_done)
        return 0;
    ASSERT(field_count(scratch) > 0);
    struct head_field *field = field_at(scratch, field_count(scratch) - 1);
    if (!response->is_value_open)
        field->value_at = (uint32_t)scratch->text.len;
    response->is_value_open = true;
    field->value_len += (uint32_t)len;
    return head_append(connection, at, len);
}

/* on_header_value is never called for an empty value. */
static int on_header_value_complete(llhttp_t *parser)
{
    struct http_response *response = &connection_of(parser)->response;
    if (!response->is_head_done)
        response->is_value_open = true;
    return 0;
}

/* Copies the head into the owner's arena: one block of text, one of headers. */
static int head_copy(struct http_connection *connection)
{
    struct http_call *call = connection->call;
    struct head_scratch *scratch = connection->response.scratch;
    size_t count = field_count(scratch);
    /* Offsets become pointers only now: the scratch text moves as it grows. */
    slice text = arena_dup(&call->owner->arena, buf_slice(&scratch->text));
    struct http_header *headers = ARENA_ARRAY(&call->owner->arena, struct http_header, count);
    if (!text.ptr || !headers)
        /* No member has been assigned yet, so the call never has half a head. */
        return refuse_response_memory(connection);
    for (size_t i = 0; i < count; i++) {
        const struct head_field *field = field_at(scratch, i);
        headers[i].name = slice_of(text.ptr + field->name_at, field->name_len);
        headers[i].value = slice_trim(slice_of(text.ptr + field->value_at, field->value_len));
    }
    call->response_headers = headers;
    call->response_header_count = count;
    return 0;
}

/* Refuses anything that two readers could understand differently. */
static int check_framing(struct http_connection *connection, const llhttp_t *parser,
                         uint64_t *length)
{
    const struct http_call *call = connection->call;
    const struct http_header *headers = call->response_headers;
    size_t count = call->response_header_count;
    size_t lengths = http_header_count(headers, count, SLICE("content-length"));
    size_t codings = http_header_count(headers, count, SLICE("transfer-encoding"));
    /* Stricter than RFC 9112 6.3, which lets a recipient repair some of these: a wrong guess could
     * cache or smuggle a reply. */
    if (lengths > 1 || codings > 1 || (lengths && codings))
        return refuse_response_protocol(connection, "states its length twice");
    if (lengths &&
        !slice_to_u64(http_header_get(headers, count, SLICE("content-length")), INT64_MAX, length))
        return refuse_response_protocol(connection, "has a Content-Length that is not a number");
    if (!codings)
        return 0;
    /* HTTP/1.0 does not have transfer codings (RFC 9112 6.1). */
    if (parser->http_minor == 0 ||
        !slice_eq_nocase(http_header_get(headers, count, SLICE("transfer-encoding")),
                         SLICE("chunked")))
        return refuse_response_protocol(connection, "has a Transfer-Encoding other than chunked");
    return 0;
}

/* Keep-Alive: timeout=5, max=100 (RFC 2068 19.7.1.1; servers still send it) */
static unsigned keep_alive_seconds(const struct http_call *call)
{
    slice list = http_call_header(call, SLICE("keep-alive"));
    uint64_t seconds;
    while (list.len) {
        slice item = slice_trim(slice_split(&list, ','));
        if (slice_eq_nocase(slice_first(item, 8), SLICE("timeout=")) &&
            slice_to_u64(slice_from(item, 8), 86400, &seconds))
            /* A timeout of 0 seconds means "closes at once"; 0 in keep_alive_s means that the
             * field is absent, so 1 is used. */
            return seconds ? (unsigned)seconds : 1;
    }
    return 0;
}

static int body_prepare(struct http_connection *connection, uint64_t length)
{
    struct http_response *response = &connection->response;
    struct http_call *call = connection->call;
    /* The reply is refused at its head, before memory is taken for the announced length. */
    if (length > call->response_bytes_max)
        return refuse_response(connection, HTTP_CALL_TOO_LARGE, ERR_LIMIT,
                               "is larger than the limit of this call");
    if (!response_takes_body(connection, (size_t)length))
        return 0;
    response->is_length_known = true;
    response->body_cap = (size_t)length;
    /* The extra byte is for the NUL after the body, which response_end sets. */
    response->body = arena_alloc_text(&call->owner->arena, response->body_cap + 1);
    return response->body ? 0 : refuse_response_memory(connection);
}

/* Handles the statuses 100 to 199, after which the real reply follows. */
static int on_interim(struct http_connection *connection, const llhttp_t *parser)
{
    /* Bytes after a 101 are no longer HTTP (RFC 9110 15.2.2). */
    if (parser->status_code == 101)
        return refuse_response_protocol(connection,
                                        "switches to a protocol that was not requested");
    if (++connection->response.interims > HTTP_CALL_INTERIM_MAX)
        return refuse_response_protocol(connection, "is preceded by too many interim replies");
    return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
    struct http_connection *connection = connection_of(parser);
    struct http_response *response = &connection->response;
    struct http_call *call = connection->call;
    uint64_t length = UINT64_MAX;
    if (parser->http_major != 1 || parser->http_minor > 1)
        return refuse_response_protocol(connection, "is not HTTP/1.1");
    if (parser->status_code < 100 || parser->status_code > 599)
        return refuse_response_protocol(connection, "has no valid status");
    response->is_head_done = true;
    if (parser->status_code < 200)
        return on_interim(connection, parser);
    /* llhttp's own numbers are not used for the length: check_framing has read the fields
     * itself. */
    if (head_copy(connection) != 0 || check_framing(connection, parser, &length) != 0)
        return -1;
    scratch_give(connection);
    call->status = parser->status_code;
    response->keep_alive_s = keep_alive_seconds(call);
    if (slice_eq_cstr(call->method, "HEAD"))
        /* 1 tells llhttp that there is no body (RFC 9110 9.3.2). */
        return 1; /* no body follows, whatever the head says */
    /* 204 and 304 have no body either (RFC 9112 6.3); llhttp handles that itself. */
    bool has_body = call->status != 204 && call->status != 304;
    return has_body && length != UINT64_MAX ? body_prepare(connection, length) : 0;
}

/* ---- the body ---- */

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct http_connection *connection = connection_of(parser);
    struct http_response *response = &connection->response;
    /* The subtraction cannot wrap: bytes over the limit were cut, and the reply was refused. */
    size_t room = connection->call->response_bytes_max - (size_t)response->body_bytes;
    slice now = slice_first(slice_of(at, len), room);
    if (response->is_length_known) {
        ASSERT(now.len <= response->body_cap - response->body_bytes);
        memcpy(response->body + response->body_bytes, now.ptr, now.len);
    } else {
        buf_append(&response->body_buf, now);
        if (!buf_is_ok(&response->body_buf))
            return refuse_response_memory(connection);
    }
    response->body_bytes += now.len;
    response_note_growth(connection);
    if (now.len == len)
        return 0;
    return refuse_response(connection, HTTP_CALL_TOO_LARGE, ERR_LIMIT,
                           "is larger than the limit of this call");
}

static int on_message_complete(llhttp_t *parser)
{
    struct http_connection *connection = connection_of(parser);
    struct http_response *response = &connection->response;
    /* status is 0 until a head other than 1xx was read. */
    if (connection->call->status == 0) /* an interim reply */
        return 0;
    response->is_complete = true;
    response->is_keep_alive = llhttp_should_keep_alive(parser) != 0;
    return HPE_PAUSED; /* the rest is not part of this message */
}

static const llhttp_settings_t settings = {
    .on_message_begin = on_message_begin,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* ---- for the connection ---- */

void response_begin(struct http_connection *connection)
{
    struct http_response *response = &connection->response;
    ASSERT(!response->scratch);
    *response = (struct http_response){.is_failed = false};
    llhttp_init(&response->parser, HTTP_RESPONSE, &settings);
    response->parser.data = connection;
    buf_init(&response->body_buf, connection->call->response_bytes_max);
}

/* Whether too many bytes of the reply are neither body nor a reasonable amount of framing. */
static bool is_overhead_too_much(const struct http_response *response)
{
    /* Many tiny chunks or endless extensions and trailers cost work and add no body. The size of
     * two heads is not counted, for 1xx replies and small bodies. */
    return response->wire_bytes - response->body_bytes >
           2 * HTTP_CALL_RESPONSE_HEAD_MAX + OVERHEAD_PER_BODY_BYTE * response->body_bytes;
}

/* The parser's own messages describe its code and change with it, so they are not used. */
static const char *say_fault(const struct http_response *response)
{
    return response->wire_bytes > 0 && response->parser.http_major == 0
               ? "does not begin like HTTP: something else answers at this address"
               : "is not valid HTTP";
}

size_t response_feed(struct http_connection *connection, slice bytes)
{
    struct http_response *response = &connection->response;
    ASSERT(bytes.len > 0 && !response->is_complete && !response->is_failed);
    response->wire_bytes += bytes.len;
    enum llhttp_errno code = llhttp_execute(&response->parser, bytes.ptr, bytes.len);
    if (response->is_failed)
        return bytes.len;
    if (code == HPE_PAUSED && response->is_complete)
        /* Bytes after the message's end are left to the caller, which then closes the
         * connection. */
        return (size_t)(llhttp_get_error_pos(&response->parser) - bytes.ptr);
    if (code != HPE_OK) {
        refuse_response_protocol(connection, say_fault(response));
    } else if (is_overhead_too_much(response)) {
        refuse_response_protocol(connection, "spends far more on its framing than on its body");
    }
    return bytes.len;
}

bool response_finish(struct http_connection *connection)
{
    struct http_response *response = &connection->response;
    /* If the peer closes before the head is complete, the reply is broken. */
    if (!response->is_head_done || connection->call->status == 0 ||
        !llhttp_message_needs_eof(&response->parser))
        return false;
    enum llhttp_errno code = llhttp_finish(&response->parser);
    return (code == HPE_OK || code == HPE_PAUSED) && response->is_complete;
}

void response_end(struct http_connection *connection)
{
    struct http_response *response = &connection->response;
    struct http_call *call = connection->call;
    ASSERT(call);
    scratch_give(connection);
    if (response->is_length_known) {
        response->body[response->body_bytes] = '\0';
        call->body = slice_of(response->body, (size_t)response->body_bytes);
    } else if (response->body_buf.len) {
        call->body = arena_dup(&call->owner->arena, buf_slice(&response->body_buf));
        /* If the reply has already failed, that reason is kept; otherwise the lack of memory is
         * the result. */
        if (!call->body.ptr && !response->is_failed) {
            response->is_complete = false;
            refuse_response_memory(connection);
        }
    }
    buf_deinit(&response->body_buf);
}
