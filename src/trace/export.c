/*
 * Queued spans are sent to the endpoint in the background, one request at a time (OTLP/HTTP, JSON).
 * The queue is sent unchanged, between the resource's text and the closing brackets. Spans that end
 * during the request fill the next queue, so at most two queues are in memory, however slow the
 * receiver is.
 *
 * The operator sets the endpoint: its host may be internal, and no proxy is used. It has its own
 * client, since tenants must not be able to reach this host.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/version.h"
#include "http/url.h"
#include "trace/internal.h"

enum {
    EXPORT_ARENA_BYTES_MAX = 512 * 1024,
    REPLY_BYTES_MAX = 64 * 1024,
    RESOURCE_BYTES_MAX = 4096,
    HEADER_FILE_BYTES_MAX = 16 * 1024,
    DELAY_MS = 1000, /* time from the first queued span to the export */
    SPANS_AT_ONCE = 512,
    CALL_MS = 10000,
    TRIES_MAX = 3,
    PAUSE_MS = 1000, /* delay before the second attempt; doubles each time */
    PAUSE_MS_MAX = 5000,
};

struct trace_export {
    struct op op;
    struct tracer *tracer; /* NULL: stopped */
    struct buf spans;
    size_t count;
    slice body[3];
    struct http_call call;
    struct op_timer timer;
    unsigned tries;
};

enum export_step { EXPORT_SEND, EXPORT_SENT };

OP_OF(export_of, trace_export)

/* ---- one export ---- */

static enum op_result step_send(struct op *op)
{
    struct trace_export *export = export_of(op);
    struct tracer *tracer = export->tracer;
    ASSERT(tracer && tracer->client && export->count > 0);
    export->tries++;
    export->body[0] = buf_slice(&tracer->resource);
    export->body[1] = buf_slice(&export->spans);
    export->body[2] = SLICE("]}]}]}");
    arena_reset(&op->arena);
    export->call = (struct http_call){
        .method = SLICE("POST"),
        .url = tracer->url,
        .headers = tracer->headers,
        .header_count = tracer->header_count,
        .body_parts = export->body,
        .body_part_count = ARRAY_LEN(export->body),
        .attempt = export->tries,
        .is_idempotent = true, /* the receiver recognizes a duplicate span by its id */
        .deadline_ns = loop_now_ns(op->loop) + CALL_MS * UINT64_C(1000000),
        .response_bytes_max = REPLY_BYTES_MAX,
    };
    /* The call was refused when it started. Later attempts would fail, too, and the end reports
     * it. */
    return http_call_start(tracer->client, &export->call, op) == OK ? OP_WAIT : OP_NEXT;
}

/* These errors mean that the receiver has not accepted the spans (OTLP: 429, 502, 503, 504 may
 * be retried). After a time-out the spans may have arrived, and would be duplicates. */
static bool is_worth_another(const struct trace_export *export)
{
    const struct http_call *call = &export->call;
    if (export->tracer->is_draining || export->tries >= TRIES_MAX)
        return false;
    if (call->result == HTTP_CALL_OK)
        return call->status == 429 || call->status == 502 || call->status == 503 ||
               call->status == 504;
    return !call->is_any_byte_sent && call->result != HTTP_CALL_CANCELLED && call->status == 0;
}

static uint64_t pause_ms(const struct trace_export *export)
{
    uint64_t seconds, pause = (uint64_t)PAUSE_MS << (export->tries - 1);
    slice after = http_call_header(&export->call, SLICE("Retry-After"));
    if (after.ptr && slice_to_u64(after, UINT32_MAX, &seconds) && seconds * 1000 > pause)
        pause = seconds * 1000;
    /* the random part keeps processes from retrying at the same time */
    pause += random_below(PAUSE_MS);
    return pause < PAUSE_MS_MAX ? pause : PAUSE_MS_MAX;
}

/* Returns the number of sent spans that the receiver reports as rejected. Any other body of a 2xx
 * means that it has accepted all. */
static size_t rejected(struct trace_export *export)
{
    const struct json *reply =
        json_parse(&export->op.arena, export->call.body, &json_limits_provider, NULL);
    const struct json *given = JSON_GET(JSON_GET(reply, "partialSuccess"), "rejectedSpans");
    uint64_t count = 0;
    if (given && given->type == JSON_INT && given->as.i64 > 0)
        count = (uint64_t)given->as.i64;
    else if (!slice_to_u64(json_str(given), UINT64_MAX, &count))
        count = 0;
    return count < export->count ? (size_t)count : export->count;
}

/* Logs one line when exports begin to fail and one when they work again, not one for each
 * export. */
static void log_change(struct trace_export *export, bool is_ok)
{
    struct tracer *tracer = export->tracer;
    const struct http_call *call = &export->call;
    if (tracer->is_failing == !is_ok)
        return;
    tracer->is_failing = !is_ok;
    if (is_ok)
        op_log(&export->op, LOG_INFO, "spans are exported again", LOG_INT("spans", export->count));
    else
        op_log(&export->op, LOG_WARN, "spans could not be exported and are dropped",
               LOG_CSTR("result", http_call_result_name(call->result)),
               LOG_INT("status", call->status), LOG_CSTR("cause", call->err.text));
}

static enum op_result step_sent(struct op *op)
{
    struct trace_export *export = export_of(op);
    const struct http_call *call = &export->call;
    bool is_ok = call->result == HTTP_CALL_OK && call->status >= 200 && call->status < 300;
    if (!is_ok && is_worth_another(export)) {
        op_sleep(op, &export->timer, pause_ms(export), "the receiver of spans");
        return op_wait_then(op, EXPORT_SEND);
    }
    log_change(export, is_ok);
    size_t lost = is_ok ? rejected(export) : export->count;
    metric_add(export->tracer->exported, (double)(export->count - lost));
    metric_add(export->tracer->failed, (double)lost);
    export->count = 0;
    return OP_DONE;
}

static const struct op_step steps[] = {
    [EXPORT_SEND] = {"send", step_send, 0},
    [EXPORT_SENT] = {"sent", step_sent, OP_TO(EXPORT_SEND)},
};

static void on_cancel(struct op *op)
{
    http_call_cancel(&export_of(op)->call);
}

/* Spans that ended during the request are sent next. */
static void on_end(struct op *op, enum op_end end)
{
    struct trace_export *export = export_of(op);
    struct tracer *tracer = export->tracer;
    (void)end;
    buf_deinit(&export->spans);
    if (export->count > 0) /* it was cut */
        metric_add(tracer->failed, (double)export->count);
    tracer->exporting = NULL;
    if (tracer->queued > 0 && tracer->client)
        trace_export_wake(tracer);
}

static const struct op_class export_class = {
    .name = "trace_export",
    OP_STEPS(steps),
    .is_background = true,
    .on_cancel = on_cancel,
    .on_end = on_end,
    .free = op_free_struct,
};

/* Starts an export of the queue. If out of memory, the queue stays, and the next span starts
 * another attempt. */
static void start_export(struct tracer *tracer)
{
    struct trace_export *export = mem_zalloc(sizeof(*export));
    ASSERT(!tracer->exporting && tracer->queued > 0);
    if (!export)
        return;
    timer_stop(&tracer->timer);
    export->tracer = tracer;
    export->spans = tracer->queue;
    export->count = tracer->queued;
    buf_init(&tracer->queue, TRACE_QUEUE_BYTES_MAX);
    tracer->queued = 0;
    tracer->exporting = export;
    op_start(&export->op, &export_class, tracer->loop, NULL, EXPORT_ARENA_BYTES_MAX);
}

void trace_export_wake(struct tracer *tracer)
{
    ASSERT(tracer->client && tracer->queued > 0);
    if (tracer->exporting)
        return;
    if (tracer->queued >= SPANS_AT_ONCE || tracer->is_draining)
        start_export(tracer);
    else if (!timer_is_armed(&tracer->timer))
        timer_start_in_ms(&tracer->timer, DELAY_MS);
}

static void on_timer(struct timer *timer)
{
    struct tracer *tracer = CONTAINER_OF(timer, struct tracer, timer);
    if (tracer->client && tracer->queued > 0 && !tracer->exporting)
        start_export(tracer);
}

void trace_drain(struct tracer *tracer)
{
    if (!tracer || tracer->is_draining)
        return;
    tracer->is_draining = true;
    if (tracer->exporting)
        op_sleep_stop(&tracer->exporting->timer); /* ends the wait, so that the next attempt is
                                                   * made now */
    if (tracer->client && tracer->queued > 0)
        trace_export_wake(tracer);
}

bool trace_is_drained(const struct tracer *tracer)
{
    return !tracer || (tracer->queued == 0 && !tracer->exporting);
}

void trace_stop(struct tracer *tracer)
{
    if (!tracer || !tracer->client)
        return;
    struct http_client *client = tracer->client;
    tracer->client = NULL; /* set before the op ends, so that nothing new is started */
    timer_stop(&tracer->timer);
    metric_add(tracer->dropped, (double)tracer->queued);
    tracer->queued = 0;
    if (tracer->exporting)
        op_cancel(&tracer->exporting->op);
    http_client_free(client);
}

void trace_tls_set(struct tracer *tracer, struct tls_context *tls)
{
    if (tracer && tracer->client)
        http_client_tls_set(tracer->client, tls);
}

/* ---- the endpoint ---- */

static void put_resource(struct tracer *tracer)
{
    char id[UUID_TEXT_LEN + 1];
    struct json_writer w;
    uuid_format(uuid_v7(), id);
    const struct {
        const char *key;
        slice value;
    } attributes[] = {{"service.name", SLICE("sluice")},
                      {"service.version", SLICE(SLUICE_VERSION)},
                      {"service.instance.id", slice_cstr(id)}};
    json_begin(&w, &tracer->resource);
    json_open(&w, '{');
    json_member_open(&w, "resourceSpans", '[');
    json_open(&w, '{');
    json_member_open(&w, "resource", '{');
    json_member_open(&w, "attributes", '[');
    for (size_t i = 0; i < ARRAY_LEN(attributes); i++) {
        json_open(&w, '{');
        json_member_str(&w, "key", slice_cstr(attributes[i].key));
        json_member_open(&w, "value", '{');
        json_member_str(&w, "stringValue", attributes[i].value);
        json_close(&w, '}');
        json_close(&w, '}');
    }
    json_close(&w, ']');
    json_close(&w, '}');
    json_member_open(&w, "scopeSpans", '[');
    json_open(&w, '{');
    json_member_open(&w, "scope", '{');
    json_member_str(&w, "name", SLICE("sluice"));
    json_member_str(&w, "version", SLICE(SLUICE_VERSION));
    json_close(&w, '}');
    json_member_open(&w, "spans", '['); /* and the spans */
}

/* Reads "name: value" lines; a line that begins with # is a comment. */
static int read_header(struct tracer *tracer, slice line, struct err *err)
{
    line = slice_trim(line);
    if (line.len == 0 || line.ptr[0] == '#')
        return OK;
    bool has_value = slice_find_char(line, ':') > 0;
    slice name = slice_trim(slice_split(&line, ':')), value = slice_trim(line);
    /* The value may be a secret, so the message does not contain it. */
    if (!has_value || !http_is_token(name) || !http_is_field_value(value))
        return err_set(err, ERR_SYNTAX, "each line must be \"Name: value\", as in a request");
    if (tracer->header_count > TRACE_HEADERS_MAX)
        return err_set(err, ERR_LIMIT, "at most %d headers", TRACE_HEADERS_MAX);
    tracer->headers[tracer->header_count++] = (struct http_header){name, value};
    return OK;
}

static int read_headers(struct tracer *tracer, slice path, struct err *err)
{
    struct buf text;
    mode_t mode = 0;
    tracer->headers[0] = (struct http_header){SLICE("Content-Type"), SLICE("application/json")};
    tracer->header_count = 1;
    if (path.len == 0)
        return OK;
    buf_init(&text, HEADER_FILE_BYTES_MAX);
    int code = file_read_into(path.ptr, &text, &mode, err);
    if (code == OK && mode & S_IRWXO)
        code = err_set(err, ERR_REFUSED,
                       "it may hold a secret, and others may read it: chmod o= %s", path.ptr);
    if (code == OK && !(tracer->header_text = secret_new(buf_slice(&text))))
        code = err_set(err, ERR_NOMEM, "out of memory");
    if (text.ptr)
        explicit_bzero(text.ptr, text.len);
    buf_deinit(&text);
    slice rest = secret_reveal(tracer->header_text);
    while (code == OK && rest.len > 0)
        code = read_header(tracer, slice_split(&rest, '\n'), err);
    return code == OK ? OK : err_prefix(err, "trace-headers-file");
}

/* The operator configured this host, so it may be internal, and without TLS. */
static int allow_endpoint(struct tracer *tracer, const struct url *url, struct err *err)
{
    char origin[URL_ORIGIN_MAX + 1];
    slice host = url_origin(url, origin);
    host = slice_from(host, (size_t)slice_find(host, SLICE("://")) + 3);
    tracer->policy = address_policy_new();
    if (!tracer->policy)
        return err_set(err, ERR_NOMEM, "out of memory for traces");
    return address_policy_allow(tracer->policy, host, err);
}

int trace_export_init(struct tracer *tracer, const struct trace_config *config, struct err *err)
{
    struct url url;
    buf_init(&tracer->url_text, URL_BYTES_MAX);
    buf_init(&tracer->resource, RESOURCE_BYTES_MAX);
    timer_init(&tracer->timer, config->loop, on_timer);
    if (config->endpoint.len == 0)
        return OK;
    if (url_parse(config->endpoint, &url, err) != OK || allow_endpoint(tracer, &url, err) != OK)
        return err_prefix(err, "trace-endpoint");
    if (read_headers(tracer, config->headers_file, err) != OK)
        return (int)err->code;
    bool has_path = url.target.len > 1;
    buf_append(&tracer->url_text,
               has_path ? config->endpoint
                        : slice_first(config->endpoint, config->endpoint.len - url.target.len));
    buf_append_cstr(&tracer->url_text, has_path ? "" : "/v1/traces");
    put_resource(tracer);
    if (!buf_is_ok(&tracer->url_text) || !buf_is_ok(&tracer->resource))
        return err_set(err, ERR_NOMEM, "out of memory for traces");
    tracer->url = buf_slice(&tracer->url_text);
    struct http_client_config client = {
        .resolver = config->resolver,
        .policy = tracer->policy,
        .tls = config->tls,
        .user_agent = SLICE("sluice/" SLUICE_VERSION),
        .calls_per_origin = 1,
        .share_of_origin = 1,
        .connections_max = 2,
        .share_of_all = 2,
        .idle_per_origin = 1,
        .response_bytes_max = REPLY_BYTES_MAX,
        .is_apart = true,
    };
    tracer->client = http_client_new(config->loop, &client, err);
    return tracer->client ? OK : (int)err->code;
}

void trace_export_deinit(struct tracer *tracer)
{
    address_policy_free(tracer->policy);
    secret_unref(tracer->header_text);
    buf_deinit(&tracer->url_text);
    buf_deinit(&tracer->resource);
}
