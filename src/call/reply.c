/*
 * Parses a provider's reply; see reply.h. A reply can be hostile: any text from it that reaches a
 * person or a model is limited in length, and nothing in it can stall the loop (expression
 * budgets).
 */
#include "call/reply.h"

#include "base/ascii.h"
#include "base/clock.h"
#include "call/effect.h"
#include "call/reply_body.h"
#include "call/reply_text.h"
#include "call/reply_words.h"

enum {
    REQUEST_ID_BYTES_MAX = 200,
    REPLY_WORDS_BYTES_MAX = 500, /* the provider's own message, inside a message of sluice */
    REPLY_WAIT_MS_MAX = 24 * 3600 * 1000,
    REPLY_OVERLOAD_WAIT_MS = 1000,
    REPLY_COUNT_MAX = 1000000000,
    REPLY_EPOCH_S_MIN = 1000000000, /* a number this large is a time, not a wait */
    OUTPUT_ROOM_BYTES = 16 * 1000,  /* fits a size class of base/mem.c */
};

struct reply {
    const struct catalog_action *action;
    const struct catalog_reply *wanted;
    struct call_progress *progress; /* NULL: the action has only one request */
    unsigned at;
    bool acts; /* the request may have acted */
    const struct catalog_auth *auth;
    const struct http_call *call;
    const struct call_built *built;
    struct arena *arena;
    struct exec_outcome *out;
    struct json root;
    struct reply_body body;
    struct expr_budget budget;
    bool is_display_unused;
};

enum exec_advice exec_advice_for(const struct catalog_action *action)
{
    bool is_open = action->integration->auth.kind == AUTH_NONE;
    return is_open ? EXEC_ADVICE_NONE : EXEC_ADVICE_OF_REASON;
}

/* ---- the scope of expressions ---- */

/* Names in lower case; values with the same name are joined by ", ". */
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
            name[j] = ascii_lower(c);
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

/* Adds `integration.name`, for rules that several apps share. */
static void put_name(struct reply *r)
{
    struct json integration = json_object();
    json_object_set(r->arena, &integration, SLICE("name"),
                    json_string(r->action->integration->name));
    json_object_set(r->arena, &r->root, SLICE("integration"), integration);
}

/* An error is returned as JSON even if a success would be a file or a text. */
static enum catalog_reply_body body_of(const struct reply *r)
{
    bool is_success = r->call->status >= 200 && r->call->status < 300;
    return is_success ? r->wanted->body : REPLY_ANY;
}

static void make_root(struct reply *r, const struct call_scope *scope)
{
    static const struct json empty = {.type = JSON_OBJECT};
    struct json connection = json_object();
    json_object_set(r->arena, &connection, SLICE("params"),
                    scope->connection_params ? *scope->connection_params : empty);
    r->root = json_object();
    json_object_set(r->arena, &r->root, SLICE("status"), json_i64(r->call->status));
    json_object_set(r->arena, &r->root, SLICE("headers"), headers_object(r));
    json_object_set(r->arena, &r->root, SLICE("body"),
                    reply_body_value(&r->body, body_of(r), r->call, r->arena));
    json_object_set(r->arena, &r->root, SLICE("input"), scope->input ? *scope->input : empty);
    json_object_set(r->arena, &r->root, SLICE("connection"), connection);
    call_progress_put(r->progress, &r->root, r->arena);
    put_name(r);
}

/* Returns null if the expression fails, as in contrib/integrations/README.md "Templates and
 * expressions". */
static struct json eval_or_null(struct reply *r, const struct expr *expr)
{
    struct json value = json_null;
    struct err err;
    if (expr && expr_eval(expr, &r->root, &r->root, &r->budget, r->arena, &value, &err) != OK)
        return json_null;
    return value;
}

static slice mask(struct reply *r, slice text)
{
    return secret_mask_text(&r->built->secrets, text, r->arena);
}

/* Only the first fault of a reply is reported: later faults are often its consequence. */
static void note_fault(struct reply *r, const char *member, const struct err *err)
{
    if (r->out->manifest_fault.len == 0)
        r->out->manifest_fault = arena_printf(r->arena, "%s: %s", member, err->text);
}

/* Returns a template's text on one line; SLICE_NONE if there is none or it fails. */
static slice eval_text(struct reply *r, const char *member, const struct expr_template *tmpl)
{
    struct json value;
    struct err err;
    if (!tmpl)
        return SLICE_NONE;
    if (expr_template_eval(tmpl, &r->root, 0, &r->budget, r->arena, &value, &err) != OK) {
        note_fault(r, member, &err);
        return SLICE_NONE;
    }
    return reply_clean_text(mask(r, json_str(&value)), EXEC_MESSAGE_BYTES_MAX, r->arena);
}

/* ---- times to wait ---- */

/* Reads seconds, an epoch in seconds or milliseconds, an HTTP date, an RFC 3339 time or the next
 * midnight. Returns -1 for anything else. */
static int64_t wait_ms(const struct json *value)
{
    double number = 0;
    int64_t at_us, now_us = clock_shared_us();
    slice text = slice_trim(json_str(value));
    if (json_is_number(value)) {
        number = json_to_double(value);
    } else if (text.len > 0 && (time_parse_http(text, &at_us) || time_parse(text, &at_us) ||
                                time_parse_midnight(text, now_us, &at_us))) {
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

/* Whether the manifest's rules recognize a rate limit, for providers that report it with a status
 * other than 429. */
static bool is_rate_limited(struct reply *r)
{
    const struct catalog_limits *limits = &r->action->integration->limits;
    for (size_t i = 0; i < limits->rate_rule_count; i++) {
        struct json is_match = eval_or_null(r, limits->rate_rules[i].when);
        if (!expr_is_true(&is_match))
            continue;
        struct json wait = eval_or_null(r, limits->rate_rules[i].retry_after);
        r->out->retry_after_ms = wait_ms(&wait);
        return true;
    }
    return false;
}

/* Unless a rule has set a time, reads Retry-After after a rate limit or an outage (RFC 9110
 * 10.2.3); else the time at which a used-up quota is reset. */
static void read_retry_after(struct reply *r)
{
    bool is_due = r->out->reason == EXEC_PROVIDER_RATE_LIMITED || r->call->status == 503;
    if (!is_due || r->out->retry_after_ms >= 0)
        return;
    struct json header = json_string(http_call_header(r->call, SLICE("retry-after")));
    r->out->retry_after_ms = wait_ms(&header);
    if (r->out->retry_after_ms < 0 && r->out->quota_remaining == 0)
        r->out->retry_after_ms = r->out->quota_reset_ms;
}

/* Returns a number of calls; -1 if the value is not a whole number. */
static int64_t count_of(const struct json *value)
{
    uint64_t count;
    if (json_is_number(value)) {
        double number = json_to_double(value);
        return number < 0 ? 0 : number > REPLY_COUNT_MAX ? REPLY_COUNT_MAX : (int64_t)number;
    }
    return slice_to_u64(slice_trim(json_str(value)), REPLY_COUNT_MAX, &count) ? (int64_t)count : -1;
}

static void read_quota(struct reply *r)
{
    const struct catalog_limits *limits = &r->action->integration->limits;
    if (!limits->quota_remaining || !limits->quota_reset)
        return;
    struct json remaining = eval_or_null(r, limits->quota_remaining);
    struct json reset = eval_or_null(r, limits->quota_reset);
    r->out->quota_remaining = count_of(&remaining);
    r->out->quota_reset_ms = wait_ms(&reset);
}

/* ---- errors ---- */

/* Returns the first rule that matches, or NULL, so that the status decides. A success is treated as
 * an error only by rules that declare it (on_success). */
static const struct catalog_error_rule *find_rule(struct reply *r,
                                                  const struct catalog_error_rules *rules)
{
    bool is_success = r->call->status >= 200 && r->call->status < 300;
    for (size_t i = 0; i < rules->count; i++) {
        if (is_success && !rules->items[i].on_success)
            continue;
        struct json is_match = eval_or_null(r, rules->items[i].when);
        if (expr_is_true(&is_match))
            return &rules->items[i];
    }
    return NULL;
}

static enum exec_reason reason_of_status(unsigned status, enum catalog_auth_kind kind)
{
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

/* Returns the reason that corresponds to a rule's error_code; the code itself is kept for the
 * envelope. */
static enum exec_reason reason_of_code(slice code, enum exec_reason default_reason)
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
    return default_reason;
}

/* Returns the provider's own message, quoted: `: "..."`, or a full stop if there is none. */
static slice provider_words(struct reply *r)
{
    slice words = mask(r, reply_error_text(&r->root.as.members[2].value)); /* body */
    words = reply_clean_text(words, REPLY_WORDS_BYTES_MAX, r->arena);
    slice quoted = words.len > 0 ? arena_printf(r->arena, ": \"%.*s\"", SLICE_ARG(words))
                                 : SLICE_NONE;
    return quoted.ptr ? quoted : SLICE(".");
}

static slice default_message(struct reply *r)
{
    unsigned status = r->call->status;
    return arena_printf(r->arena, "%.*s %s (HTTP %u %s)%.*s",
                        SLICE_ARG(r->action->integration->name),
                        reply_status_words(r->out->reason, status), status,
                        http_status_text(status), SLICE_ARG(provider_words(r)));
}

/* Appends the provider's request id, so that a person can ask the provider about this call. */
static slice with_request_id(struct reply *r, slice message)
{
    slice id = r->out->provider_request_id;
    slice text = id.len > 0 ? arena_printf(r->arena, "%.*s [provider request id %.*s]",
                                           SLICE_ARG(message), SLICE_ARG(id))
                            : message;
    return text.ptr ? text : message;
}

/* Shows the new address, so that the caller can use the new name. */
static slice redirect_words(struct reply *r)
{
    slice to = r->call->status / 100 == 3 ? mask(r, http_call_header(r->call, SLICE("location")))
                                          : SLICE_NONE;
    to = reply_clean_text(to, REPLY_WORDS_BYTES_MAX, r->arena);
    return to.len > 0 ? arena_printf(r->arena, "The redirect leads to \"%.*s\".", SLICE_ARG(to))
                      : SLICE_NONE;
}

static slice with_words(struct reply *r, slice message, slice words)
{
    slice longer = words.len > 0
                       ? arena_printf(r->arena, "%.*s %.*s", SLICE_ARG(message), SLICE_ARG(words))
                       : SLICE_NONE;
    return longer.ptr ? longer : message;
}

/* Sets *quotes unless the placeholder is only the app's name. */
static bool on_placeholder(void *quotes, const struct expr *expr, slice where)
{
    bool is_quoting = !slice_eq_cstr(slice_trim(expr_source(expr)), "integration.name");
    (void)where;
    *(bool *)quotes = is_quoting;
    return !is_quoting;
}

/* Only the message quotes the reply: a hint is in the words of sluice and of the manifest, so that
 * a model may follow it. A manifest's hint that quotes the reply therefore ends the message. */
static void say_cause(struct reply *r, const struct catalog_error_rule *rule)
{
    struct exec_outcome *out = r->out;
    slice hint = rule ? eval_text(r, "hint", rule->hint) : SLICE_NONE;
    bool is_quoting = false;
    if (hint.len > 0)
        expr_template_each_expr(rule->hint, on_placeholder, &is_quoting);
    out->message = rule ? eval_text(r, "message", rule->message) : SLICE_NONE;
    if (out->message.len == 0)
        out->message = default_message(r);
    out->message = with_words(r, out->message, is_quoting ? hint : redirect_words(r));
    out->message = with_request_id(r, out->message);
    out->hint = is_quoting ? SLICE_NONE : hint;
}

/* For an app that accepts calls without a credential, there is no connection to reconnect. */
static slice default_hint(struct reply *r)
{
    enum exec_reason reason = r->out->reason;
    bool is_refused = reason == EXEC_KEY_REFUSED || reason == EXEC_REAUTH_REQUIRED;
    if (is_refused && r->action->integration->auth.kind == AUTH_NONE)
        return SLICE("Nothing was done. The app asks for a credential, but its manifest says that "
                     "it needs none. The operator of this server has to correct the manifest.");
    return reply_hint(reason, r->out->effect, r->call->status, r->acts);
}

/* A request without a credential was refused, for example because of an expired URL. The
 * connection is not the cause. */
static bool refuses_no_credential(const struct reply *r, const struct catalog_error_rule *rule)
{
    slice code = rule ? rule->error_code : SLICE_NONE;
    enum exec_reason reason = reason_of_code(code, r->out->reason);
    return r->built->is_bare && (reason == EXEC_REAUTH_REQUIRED || reason == EXEC_KEY_REFUSED);
}

static void say_effect(struct reply *r, const struct catalog_error_rule *rule)
{
    struct exec_outcome *out = r->out;
    bool is_too_fast = out->reason == EXEC_PROVIDER_RATE_LIMITED;
    out->is_in_progress = rule && rule->outcome == RULE_IN_PROGRESS;
    if (r->acts)
        out->effect = exec_effect_of_reply(r->action, r->call->status, rule, is_too_fast);
}

/* Reads a reply that refuses the request. The action's rules are tried before the app's. A rate
 * limit takes precedence over both, since only a rate limit has a time to wait. */
static void fail_by_reply(struct reply *r)
{
    struct exec_outcome *out = r->out;
    out->reason = reason_of_status(r->call->status, r->auth->kind);
    const struct catalog_error_rule *rule = find_rule(r, &r->action->errors);
    if (!rule)
        rule = find_rule(r, &r->action->integration->errors);
    if (refuses_no_credential(r, rule)) {
        out->reason = EXEC_PROVIDER_ERROR;
        rule = NULL;
    } else if (is_rate_limited(r)) {
        out->reason = EXEC_PROVIDER_RATE_LIMITED;
    } else if (rule && rule->error_code.len > 0) {
        out->error_code = rule->error_code;
        out->reason = reason_of_code(rule->error_code, out->reason);
        if (rule->missing_scopes && out->advice == EXEC_ADVICE_OF_REASON)
            out->advice = EXEC_ADVICE_RECONNECT;
    }
    say_effect(r, rule);
    read_retry_after(r);
    say_cause(r, rule);
    out->is_hint_given = out->hint.len > 0;
    if (out->hint.len == 0)
        out->hint = default_hint(r);
    else if (out->effect == EXEC_EFFECT_UNKNOWN)
        out->hint = arena_printf(r->arena,
                                 "%.*s The outcome is unknown: check before sending it again.",
                                 SLICE_ARG(out->hint));
}

/* ---- calls without a reply ---- */

/* Without a reply, the reason depends on how far the request got. */
static enum exec_reason reason_of_call(const struct http_call *call)
{
    switch (call->result) {
    case HTTP_CALL_ADDRESS_REFUSED:
        return EXEC_ADDRESS_REFUSED;
    case HTTP_CALL_TIMEOUT:
    case HTTP_CALL_TIMEOUT_CONNECT:
        return EXEC_TIMED_OUT;
    case HTTP_CALL_TOO_LARGE:
        return EXEC_REPLY_TOO_LARGE;
    case HTTP_CALL_CANCELLED:
        return EXEC_CANCELLED;
    case HTTP_CALL_OVERLOADED:
        return EXEC_OWN_RATE_LIMIT;
    default:
        return call->is_any_byte_sent ? EXEC_BROKEN_OFF : EXEC_UNREACHABLE;
    }
}

static slice call_hint(const struct reply *r)
{
    return reply_call_hint(r->out->reason, r->call->result, r->out->effect,
                           r->call->is_any_byte_sent, r->acts);
}

/* A reply whose body is too large to read still has a status. */
static enum exec_effect effect_of_call(const struct reply *r)
{
    unsigned status = r->call->status;
    return r->call->result == HTTP_CALL_TOO_LARGE && status >= 300
               ? exec_effect_of_reply(r->action, status, NULL, status == 429)
               : EXEC_EFFECT_UNKNOWN;
}

static void fail_by_call(struct reply *r)
{
    struct exec_outcome *out = r->out;
    out->reason = reason_of_call(r->call);
    if (r->acts && r->call->is_any_byte_sent)
        out->effect = effect_of_call(r);
    if (out->reason == EXEC_OWN_RATE_LIMIT)
        out->retry_after_ms = REPLY_OVERLOAD_WAIT_MS;
    out->message = arena_printf(r->arena, "%.*s %s: %s.", SLICE_ARG(r->action->integration->name),
                                reply_call_words(out->reason, r->call->result), r->call->err.text);
    out->hint = call_hint(r);
}

/* ---- success ---- */

/* An empty cursor ("", false) means that there is no next page. */
static void read_next(struct reply *r)
{
    const struct catalog_pages *pages = &r->action->pages;
    struct json all = json_object();
    for (size_t i = 0; i < pages->count; i++) {
        struct json next = eval_or_null(r, pages->items[i].next);
        if (json_is_number(&next) || (next.type == JSON_STRING && next.count > 0))
            json_object_set(r->arena, &all, pages->items[i].input, next);
    }
    r->out->page_next = all.count > 0 ? all : json_null;
}

static void read_display(struct reply *r)
{
    struct exec_outcome *out = r->out;
    out->display_title = eval_text(r, "display.title", r->action->display_title);
    out->display_summary = eval_text(r, "display.summary", r->action->display_summary);
    if (out->display_title.len == 0)
        out->display_title = r->action->title;
    if (out->display_summary.len == 0)
        out->display_summary =
            arena_printf(r->arena, "%.*s succeeded.", SLICE_ARG(r->action->tool_name));
}

/* If the manifest's expression fails, the app has changed: the action was executed, so the whole
 * reply is the output. */
static void read_output(struct reply *r)
{
    struct exec_outcome *out = r->out;
    struct json value = r->root.as.members[2].value; /* body */
    struct err err;
    if (r->action->output && expr_eval(r->action->output, &r->root, &r->root, &r->budget, r->arena,
                                       &value, &err) != OK) {
        note_fault(r, "output", &err);
        value = r->root.as.members[2].value;
    }
    struct buf text;
    buf_init(&text, r->arena->bytes_max);
    /* The reserved size is about that of the reply, so that the buffer usually need not grow. */
    (void)buf_reserve(&text, slice_first(r->call->body, OUTPUT_ROOM_BYTES).len);
    json_write(&text, &value);
    slice masked = mask(r, buf_slice(&text));
    out->output_json = masked.ptr == text.ptr ? arena_dup(r->arena, masked) : masked;
    if (!buf_is_ok(&text) || !out->output_json.ptr) {
        out->reason = EXEC_REPLY_TOO_LARGE;
        out->effect = r->acts ? EXEC_EFFECT_DONE : EXEC_EFFECT_NONE;
        out->message = arena_printf(r->arena, "%.*s %s.", SLICE_ARG(r->action->integration->name),
                                    reply_call_words(out->reason, r->call->result));
        out->hint = call_hint(r);
    }
    buf_deinit(&text);
    json_object_set(r->arena, &r->root, SLICE("output"), value);
}

/* Returns the first expression of the action's response.required that has no value in this
 * reply. */
static slice missing_member(struct reply *r)
{
    const struct catalog_reply *wanted = r->wanted;
    for (size_t i = 0; i < wanted->required_count; i++) {
        struct json value = eval_or_null(r, wanted->required[i]);
        if (value.type == JSON_NULL)
            return wanted->required_texts[i];
    }
    return SLICE_NONE;
}

/* Returns why this is not the action's reply, as text to put after "HTTP 200"; SLICE_NONE if it
 * is. */
static slice find_misfit(struct reply *r)
{
    slice misfit = reply_body_misfit(&r->body, r->wanted, r->call, r->arena);
    if (misfit.len > 0)
        return misfit;
    slice missing = missing_member(r);
    return missing.len > 0 ? arena_printf(r->arena, "without %.*s, which this reply always has",
                                          SLICE_ARG(missing))
                           : SLICE_NONE;
}

static void fail_unreadable(struct reply *r, slice misfit)
{
    r->out->reason = EXEC_REPLY_UNREADABLE;
    r->out->effect = r->acts ? EXEC_EFFECT_UNKNOWN : EXEC_EFFECT_NONE;
    r->out->message =
        arena_printf(r->arena, "%.*s %s: HTTP %u %.*s%.*s", SLICE_ARG(r->action->integration->name),
                     reply_call_words(EXEC_REPLY_UNREADABLE, HTTP_CALL_OK), r->call->status,
                     SLICE_ARG(misfit), SLICE_ARG(provider_words(r)));
    r->out->message = with_request_id(r, r->out->message);
    r->out->hint =
        reply_call_hint(EXEC_REPLY_UNREADABLE, HTTP_CALL_OK, r->out->effect, true, r->acts);
}

/* Prepares the next request: the values for its templates, and the texts for a failure. */
static void keep_reply(struct reply *r)
{
    const struct catalog_then *then = &r->action->then[r->at];
    struct call_progress *progress = r->progress;
    static const char *const names[] = {"status", "headers", "body"};
    struct json reply = json_object();
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        json_object_set(r->arena, &reply, slice_cstr(names[i]), r->root.as.members[i].value);
    progress->replies[r->at] = reply;
    progress->former_url = r->built->url;
    progress->at = r->at + 1;
    if (!then->done || r->action->level == LEVEL_READ)
        return;
    call_progress_put(progress, &r->root, r->arena);
    progress->done = eval_text(r, "done", then->done);
    progress->not_done = eval_text(r, "not_done", then->not_done);
    if (progress->done.len == 0)
        progress->done = SLICE("Part of it was done");
    if (progress->not_done.len == 0)
        progress->not_done = SLICE("the rest was not");
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
    slice misfit = find_misfit(r);
    if (misfit.len > 0) {
        fail_unreadable(r, misfit);
        return;
    }
    out->reason = EXEC_SUCCEEDED;
    out->effect = EXEC_EFFECT_DONE;
    if (r->at < r->action->then_count) {
        keep_reply(r);
        return;
    }
    read_next(r);
    read_output(r);
    if (!r->is_display_unused)
        read_display(r);
}

/* Returns the request id for the provider's support; SLICE_NONE if none was found. */
static slice request_id(const struct http_call *call)
{
    static const char *const names[] = {"x-request-id",          "request-id",
                                        "x-notion-request-id",   "x-github-request-id",
                                        "x-slack-req-id",        "x-amzn-requestid",
                                        "x-dropbox-request-id",  "twilio-request-id",
                                        "x-airtable-request-id", "cf-ray"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        slice value = http_call_header(call, slice_cstr(names[i]));
        if (value.len > 0 && value.len <= REQUEST_ID_BYTES_MAX && http_is_visible(value))
            return value;
    }
    return SLICE_NONE;
}

/* A request that only asks, before the one that acts. */
static void say_undone(struct reply *r)
{
    if (slice_find(r->out->hint, SLICE("Nothing was ")) < 0)
        r->out->message = with_words(r, r->out->message, SLICE("Nothing was done."));
}

void call_reply_read(const struct catalog_action *action, const struct http_call *call,
                     const struct call_scope *scope, const struct call_built *built,
                     struct arena *arena, struct exec_outcome *outcome)
{
    struct reply r = {
        .action = action, .call = call, .built = built, .arena = arena, .out = outcome};
    ASSERT(scope->progress || action->then_count == 0);
    ASSERT(call->result < HTTP_CALL_RESULTS);
    r.progress = scope->progress;
    r.at = r.progress ? r.progress->at : 0;
    r.wanted = catalog_reply_at(action, r.at);
    r.acts = catalog_request_acts(action, r.at);
    r.is_display_unused = scope->is_display_unused;
    r.auth = scope->auth ? scope->auth : &action->integration->auth;
    expr_budget_init(&r.budget);
    /* Values of a reply may be decoded and inserted again, so the limit is twice the size of the
     * reply. */
    r.budget.bytes_max += 2 * call->body.len;
    outcome->is_hint_given = outcome->is_in_progress = false;
    outcome->effect = EXEC_EFFECT_NONE;
    outcome->retry_after_ms = outcome->quota_remaining = outcome->quota_reset_ms = -1;
    outcome->message = outcome->hint = outcome->error_code = SLICE_NONE;
    outcome->manifest_fault = SLICE_NONE;
    outcome->advice = exec_advice_for(action);
    outcome->provider_status = call->status;
    outcome->provider_request_id = request_id(call);
    if (call->result != HTTP_CALL_OK) {
        fail_by_call(&r);
    } else {
        make_root(&r, scope);
        read_quota(&r);
        if (call->status >= 200 && call->status < 300)
            read_success(&r);
        else
            fail_by_reply(&r);
    }
    if (outcome->reason != EXEC_SUCCEEDED && !r.acts && action->level != LEVEL_READ)
        say_undone(&r);
    if (outcome->reason != EXEC_SUCCEEDED) {
        outcome->display_title = action->title;
        outcome->display_summary = outcome->message;
    }
    if (arena->is_exhausted && outcome->reason == EXEC_SUCCEEDED && !outcome->output_json.ptr) {
        outcome->reason = EXEC_REPLY_TOO_LARGE;
        outcome->effect = r.acts ? EXEC_EFFECT_DONE : EXEC_EFFECT_NONE;
    }
}

void call_reply_display(const struct catalog_action *action, const struct json *input,
                        const struct json *output, struct arena *arena,
                        struct exec_outcome *outcome)
{
    static const struct call_built nothing;
    struct reply r = {.action = action, .built = &nothing, .arena = arena, .out = outcome};
    ASSERT(outcome->reason == EXEC_SUCCEEDED);
    expr_budget_init(&r.budget);
    r.root = json_object();
    json_object_set(arena, &r.root, SLICE("status"), json_i64(outcome->provider_status));
    json_object_set(arena, &r.root, SLICE("input"), *input);
    json_object_set(arena, &r.root, SLICE("output"), *output);
    read_display(&r);
}
