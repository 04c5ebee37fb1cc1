/*
 * Reading a provider's reply; see reply.h. A reply can be hostile: everything from it that reaches
 * a person or a model is bounded, and nothing in it can stall the loop (expression budgets).
 */
#include "exec/reply.h"

#include "base/clock.h"
#include "base/encode.h"

enum {
    REPLY_WAIT_MS_MAX = 24 * 3600 * 1000,
    REPLY_OVERLOAD_WAIT_MS = 1000,
    REPLY_EPOCH_S_MIN = 1000000000, /* a number this large is a time, not a wait */
};

struct reply {
    const struct catalog_action *action;
    const struct http_call *call;
    struct arena *arena;
    struct exec_outcome *out;
    struct json root;
    struct expr_budget budget;
};

/* ---- the scope of expressions ---- */

/* Lower-case names; equal ones joined by ", ". */
static struct json headers_object(struct reply *r)
{
    struct json object = json_object();
    for (size_t i = 0; i < r->call->response_header_count; i++) {
        struct http_header header = r->call->response_headers[i];
        char *name = arena_alloc_text(r->arena, header.name.len + 1);
        if (!name)
            break;
        for (size_t j = 0; j < header.name.len; j++) {
            char c = header.name.ptr[j];
            name[j] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
        }
        slice key = slice_of(name, header.name.len);
        slice earlier = json_get_str(&object, key);
        slice value = earlier.ptr ? arena_printf(r->arena, "%.*s, %.*s", SLICE_ARG(earlier),
                                                 SLICE_ARG(header.value))
                                  : header.value;
        if (!slice_is_utf8(value, NULL))
            continue;
        json_object_put(r->arena, &object, key, json_string(value));
    }
    return object;
}

/* The body when it is JSON, else its text when that is UTF-8, else null. */
static struct json body_value(struct reply *r)
{
    slice body = r->call->body;
    if (body.len == 0)
        return json_null;
    const struct json *parsed = json_parse(r->arena, body, &json_limits_provider, NULL);
    if (parsed)
        return *parsed;
    return slice_is_utf8(body, NULL) ? json_string(body) : json_null;
}

static void make_root(struct reply *r, const struct json *input, const struct json *params)
{
    static const struct json empty = {.type = JSON_OBJECT};
    struct json connection = json_object();
    json_object_set(r->arena, &connection, SLICE("params"), params ? *params : empty);
    r->root = json_object();
    json_object_set(r->arena, &r->root, SLICE("status"), json_i64(r->call->status));
    json_object_set(r->arena, &r->root, SLICE("headers"), headers_object(r));
    json_object_set(r->arena, &r->root, SLICE("body"), body_value(r));
    json_object_set(r->arena, &r->root, SLICE("input"), input ? *input : empty);
    json_object_set(r->arena, &r->root, SLICE("connection"), connection);
}

/* null when the expression fails: contrib/integrations/README.md "What goes wrong". */
static struct json eval(struct reply *r, const struct expr *expr)
{
    struct json value = json_null;
    struct err err;
    if (expr && expr_eval(expr, &r->root, &r->root, &r->budget, r->arena, &value, &err) != OK)
        return json_null;
    return value;
}

/* At most `max` bytes, cut at a character. */
static slice bounded(slice text, size_t max)
{
    if (text.len <= max)
        return text;
    while (max > 0 && ((unsigned char)text.ptr[max] & 0xc0) == 0x80)
        max--;
    return slice_first(text, max);
}

/* A template's text, {NULL,0} when there is none or it fails. */
static slice eval_text(struct reply *r, const struct expr_template *tmpl)
{
    struct json value;
    struct err err;
    if (!tmpl || expr_template_eval(tmpl, &r->root, 0, &r->budget, r->arena, &value, &err) != OK)
        return SLICE_NONE;
    return bounded(json_str(&value), EXEC_MESSAGE_BYTES_MAX);
}

/* ---- times to wait ---- */

/* Seconds, an epoch in seconds or milliseconds, or an HTTP date; -1 when it is none. */
static int64_t wait_ms(const struct json *value)
{
    double number = 0;
    int64_t at_us, now_us = clock_wall_us();
    slice text = slice_trim(json_str(value));
    if (json_is_number(value)) {
        number = json_to_double(value);
    } else if (text.len > 0 && time_parse_http(text, &at_us)) {
        number = (double)(at_us - now_us) / 1e6;
    } else {
        uint64_t whole;
        slice rest = text, integer = slice_split(&rest, '.');
        if (!slice_to_u64(integer, UINT64_MAX / 2, &whole))
            return -1;
        number = (double)whole + (rest.len > 0 ? 1 : 0); /* a fraction rounds up */
    }
    if (number > 1000.0 * REPLY_EPOCH_S_MIN)
        number /= 1000;
    if (number > REPLY_EPOCH_S_MIN)
        number -= (double)now_us / 1e6;
    if (number < 0)
        number = 0;
    return number * 1000 > REPLY_WAIT_MS_MAX ? REPLY_WAIT_MS_MAX : (int64_t)(number * 1000);
}

static bool is_rate_limited(struct reply *r)
{
    const struct catalog_limits *limits = &r->action->integration->limits;
    for (size_t i = 0; i < limits->rate_rule_count; i++) {
        struct json is_match = eval(r, limits->rate_rules[i].when);
        if (!expr_is_true(&is_match))
            continue;
        struct json wait = eval(r, limits->rate_rules[i].retry_after);
        r->out->retry_after_ms = wait_ms(&wait);
        return true;
    }
    return false;
}

/* ---- errors ---- */

static const struct catalog_error_rule *find_rule(struct reply *r,
                                                  const struct catalog_error_rules *rules)
{
    bool is_success = r->call->status >= 200 && r->call->status < 300;
    for (size_t i = 0; i < rules->count; i++) {
        if (is_success && !rules->items[i].on_success)
            continue;
        struct json is_match = eval(r, rules->items[i].when);
        if (expr_is_true(&is_match))
            return &rules->items[i];
    }
    return NULL;
}

static enum exec_reason reason_of_status(unsigned status, const struct catalog_action *action)
{
    enum catalog_auth_kind kind = action->integration->auth.kind;
    bool is_grant = kind == AUTH_OAUTH2 || kind == AUTH_OAUTH2_CLIENT_CREDENTIALS;
    switch (status) {
    case 400:
    case 422:
        return EXEC_PROVIDER_INVALID;
    case 401:
        return is_grant ? EXEC_REAUTH_REQUIRED : EXEC_KEY_REFUSED;
    case 403:
        return EXEC_PROVIDER_FORBIDDEN;
    case 429:
        return EXEC_PROVIDER_RATE_LIMITED;
    case 501:
        return EXEC_PROVIDER_UNSUPPORTED;
    default:
        return EXEC_PROVIDER_ERROR;
    }
}

/* The reason that a rule's error_code stands for; the code itself is kept for the envelope. */
static enum exec_reason reason_of_code(slice code, enum exec_reason otherwise)
{
    static const struct {
        const char *code;
        enum exec_reason reason;
    } table[] = {
        {"unauthorized", EXEC_KEY_REFUSED},
        {"reauth_required", EXEC_REAUTH_REQUIRED},
        {"forbidden", EXEC_PROVIDER_FORBIDDEN},
        {"rate_limited", EXEC_PROVIDER_RATE_LIMITED},
        {"validation_error", EXEC_PROVIDER_INVALID},
        {"unsupported_operation", EXEC_PROVIDER_UNSUPPORTED},
        {"timeout", EXEC_TIMED_OUT},
        {"execution_failed", EXEC_PROVIDER_ERROR},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (slice_eq_cstr(code, table[i].code))
            return table[i].reason;
    return otherwise;
}

static slice default_message(struct reply *r)
{
    slice app = r->action->integration->name;
    unsigned status = r->call->status;
    switch (r->out->reason) {
    case EXEC_REAUTH_REQUIRED:
    case EXEC_KEY_REFUSED:
        return arena_printf(r->arena, "%.*s refused the stored credential (HTTP %u).",
                            SLICE_ARG(app), status);
    case EXEC_PROVIDER_FORBIDDEN:
        return arena_printf(r->arena, "%.*s says that this account may not do that (HTTP %u).",
                            SLICE_ARG(app), status);
    case EXEC_PROVIDER_RATE_LIMITED:
        return arena_printf(r->arena, "%.*s limits the rate of calls (HTTP %u).", SLICE_ARG(app),
                            status);
    case EXEC_PROVIDER_INVALID:
        return arena_printf(r->arena, "%.*s found the request invalid (HTTP %u).", SLICE_ARG(app),
                            status);
    default:
        return arena_printf(r->arena, "%.*s answered with HTTP %u (%s).", SLICE_ARG(app), status,
                            http_status_text(status));
    }
}

static slice default_hint(const struct reply *r)
{
    bool is_write = r->action->level != LEVEL_READ;
    switch (r->out->reason) {
    case EXEC_PROVIDER_FORBIDDEN:
        return SLICE("Nothing was done. Reconnect the app with the permissions that the action's "
                     "scopes name, or use an account that may do this.");
    case EXEC_PROVIDER_RATE_LIMITED:
        return SLICE("Nothing was done. Wait as long as Retry-After says, then send the same "
                     "request again.");
    case EXEC_PROVIDER_INVALID:
        return SLICE("Nothing was done. Correct the input as the message says and try again.");
    case EXEC_PROVIDER_ERROR:
        if (r->call->status >= 500)
            return is_write ? SLICE("The provider failed while handling a write: it may or may not "
                                    "have happened. Check before sending it again.")
                            : SLICE("The provider failed; try again later.");
        return SLICE("Check that the ids in the input exist and are visible to the connected "
                     "account.");
    default:
        return SLICE_NONE;
    }
}

static void fail_by_reply(struct reply *r)
{
    struct exec_outcome *out = r->out;
    out->reason = reason_of_status(r->call->status, r->action);
    const struct catalog_error_rule *rule = find_rule(r, &r->action->errors);
    if (!rule)
        rule = find_rule(r, &r->action->integration->errors);
    if (is_rate_limited(r)) {
        out->reason = EXEC_PROVIDER_RATE_LIMITED;
    } else if (rule && rule->error_code.len > 0) {
        out->error_code = rule->error_code;
        out->reason = reason_of_code(rule->error_code, out->reason);
    }
    out->message = rule ? eval_text(r, rule->message) : SLICE_NONE;
    out->hint = rule ? eval_text(r, rule->hint) : SLICE_NONE;
    if (out->message.len == 0)
        out->message = default_message(r);
    if (out->hint.len == 0)
        out->hint = default_hint(r);
}

/* ---- calls that brought no reply ---- */

static void fail_by_call(struct reply *r)
{
    struct exec_outcome *out = r->out;
    const struct http_call *call = r->call;
    bool is_write = r->action->level != LEVEL_READ;
    switch (call->result) {
    case HTTP_CALL_ADDRESS_REFUSED:
        out->reason = EXEC_ADDRESS_REFUSED;
        break;
    case HTTP_CALL_TIMEOUT:
    case HTTP_CALL_TIMEOUT_CONNECT:
        out->reason = EXEC_TIMED_OUT;
        break;
    case HTTP_CALL_TOO_LARGE:
        out->reason = EXEC_REPLY_TOO_LARGE;
        break;
    case HTTP_CALL_CANCELLED:
        out->reason = EXEC_CANCELLED;
        break;
    case HTTP_CALL_OVERLOADED:
        out->reason = EXEC_OWN_RATE_LIMIT;
        out->retry_after_ms = REPLY_OVERLOAD_WAIT_MS;
        break;
    default:
        out->reason = call->is_any_byte_sent ? EXEC_BROKEN_OFF : EXEC_UNREACHABLE;
        break;
    }
    out->message =
        arena_printf(r->arena, "%.*s: %s", SLICE_ARG(r->action->integration->name), call->err.text);
    if (!call->is_any_byte_sent)
        out->hint = SLICE("Nothing was sent, so nothing was done; trying again is safe.");
    else if (out->reason == EXEC_REPLY_TOO_LARGE)
        out->hint = SLICE("The action ran, but its reply is larger than this server takes; ask for "
                          "fewer items or fields.");
    else if (is_write)
        out->hint = SLICE("The outcome is unknown: the write may or may not have happened. Check "
                          "before sending it again.");
    else
        out->hint = SLICE("Nothing was changed; trying again is safe.");
}

/* ---- success ---- */

static void read_output(struct reply *r)
{
    struct exec_outcome *out = r->out;
    struct json value = r->root.as.members[2].value; /* body */
    struct err err;
    if (r->action->output &&
        expr_eval(r->action->output, &r->root, &r->root, &r->budget, r->arena, &value, &err) != OK)
        value = r->root.as.members[2].value;
    struct buf text;
    buf_init(&text, r->arena->bytes_max);
    json_write(&text, &value);
    out->output_json = arena_dup(r->arena, buf_slice(&text));
    if (!buf_is_ok(&text) || !out->output_json.ptr) {
        out->reason = EXEC_REPLY_TOO_LARGE;
        out->message = SLICE("The reply is larger than this server can hold.");
        out->hint = SLICE("The action ran. Ask for fewer items or fields.");
    }
    buf_deinit(&text);
    json_object_set(r->arena, &r->root, SLICE("output"), value);
}

static void read_success(struct reply *r)
{
    struct exec_outcome *out = r->out;
    const struct catalog_error_rule *rule = find_rule(r, &r->action->errors);
    if (!rule)
        rule = find_rule(r, &r->action->integration->errors);
    if (rule) {
        fail_by_reply(r);
        return;
    }
    out->reason = EXEC_SUCCEEDED;
    read_output(r);
    out->display_title = eval_text(r, r->action->display_title);
    out->display_summary = eval_text(r, r->action->display_summary);
    if (out->display_title.len == 0)
        out->display_title = r->action->title;
    if (out->display_summary.len == 0)
        out->display_summary =
            arena_printf(r->arena, "%.*s succeeded.", SLICE_ARG(r->action->tool_name));
}

static slice request_id(const struct http_call *call)
{
    static const char *const names[] = {"x-request-id", "x-amzn-requestid", "request-id",
                                        "x-notion-request-id", "cf-ray"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        slice value = http_call_header(call, slice_cstr(names[i]));
        if (value.len > 0 && value.len <= 200 && http_is_visible(value))
            return value;
    }
    return SLICE_NONE;
}

void exec_reply_read(const struct catalog_action *action, const struct http_call *call,
                     const struct json *input, const struct json *connection_params,
                     struct arena *arena, struct exec_outcome *outcome)
{
    struct reply r = {.action = action, .call = call, .arena = arena, .out = outcome};
    expr_budget_init(&r.budget);
    outcome->retry_after_ms = -1;
    outcome->message = outcome->hint = outcome->error_code = SLICE_NONE;
    outcome->provider_status = call->status;
    outcome->provider_request_id = request_id(call);
    if (call->result != HTTP_CALL_OK) {
        fail_by_call(&r);
    } else {
        make_root(&r, input, connection_params);
        if (call->status >= 200 && call->status < 300)
            read_success(&r);
        else
            fail_by_reply(&r);
    }
    if (outcome->reason != EXEC_SUCCEEDED) {
        outcome->display_title = arena_printf(arena, "%.*s", SLICE_ARG(action->title));
        outcome->display_summary = outcome->message;
    }
    if (arena->is_exhausted && outcome->reason == EXEC_SUCCEEDED && !outcome->output_json.ptr)
        outcome->reason = EXEC_REPLY_TOO_LARGE;
}
