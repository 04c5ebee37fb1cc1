/*
 * What counts as an action's reply, checked with real replies: each recorded 2xx of a vendor (from
 * the corpora, skipped without them) is a success of every action that it belongs to. A reply that
 * a proxy or a login page sends instead of the vendor is never a success.
 */
#include "call/reply.h"
#include "call/view.h"
#include <stdlib.h>

#include "catalog/pack.h"
#include "support/action_test.h"

enum { FILE_BYTES_MAX = 16 * 1024 * 1024, MATCHED_MIN = 200 };

static const char page[] = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>";
static const char error_object[] =
    "{\"ok\":false,\"code\":17,\"status\":\"error\",\"description\":\"odd\",\"error_code\":17,"
    "\"error\":{\"code\":17,\"message\":\"odd\",\"errors\":[{\"message\":\"odd\"}]},"
    "\"errors\":[{\"message\":\"odd\"}]}";

static struct {
    enum exec_reason reason;
    char text[1000];
    bool is_unknown; /* the hint says so */
    bool is_view_bad;
    size_t views, output_bytes, view_bytes; /* of all replies whose action has a view */
} seen;

static const struct json *parse(struct bench *b, slice text)
{
    const struct json *value = json_parse(&b->arena, text, &json_limits_provider, &b->err);
    assert_non_null(value);
    return value;
}

/* A view has to work with every recorded output, and to cost less. */
static void check_view(const struct catalog_action *action, slice output, struct arena *arena)
{
    slice shown, left_out;
    struct err err;
    seen.is_view_bad = false;
    if (!action->view || seen.reason != EXEC_SUCCEEDED)
        return;
    int status = call_view(output, expr_source(action->view), arena, &shown, &left_out, &err);
    seen.is_view_bad = status != OK || shown.len > output.len || slice_eq_cstr(shown, "{}");
    (void)snprintf(seen.text, sizeof(seen.text), "%.*s: its view: %s", SLICE_ARG(action->tool_name),
                   status != OK ? err.text : "is not shorter than the output");
    seen.views++;
    seen.output_bytes += output.len;
    seen.view_bytes += status == OK ? shown.len : 0;
}

/* at is the index of the answered request in the action. */
static void read_reply(const struct catalog_action *action, unsigned at, unsigned status,
                       const char *type, slice body)
{
    struct arena arena;
    struct http_header header = {SLICE("Content-Type"), slice_cstr(type)};
    struct http_call call = {.status = status,
                             .body = body,
                             .response_headers = &header,
                             .response_header_count = type[0] ? 1 : 0};
    static const struct json input = {.type = JSON_OBJECT};
    static const struct call_built built;
    struct call_progress progress = {.at = at};
    struct call_scope scope = {.input = &input, .progress = &progress, .is_display_unused = true};
    struct exec_outcome out = {.retry_after_ms = -1};
    arena_init(&arena, UNIT_ARENA_BYTES_MAX);
    call_reply_read(action, &call, &scope, &built, &arena, &out);
    seen.reason = out.reason;
    seen.is_unknown = slice_find(out.hint, SLICE("outcome is unknown")) >= 0;
    (void)snprintf(seen.text, sizeof(seen.text), "%.*s: %s: %.*s", SLICE_ARG(action->tool_name),
                   exec_reason_name(out.reason), SLICE_ARG(out.message));
    check_view(action, out.output_json, &arena);
    arena_deinit(&arena);
}

/* ---- recorded replies ---- */

/* A template's path matches these paths, although they belong to other endpoints. */
static const struct {
    const char *app, *method, *path;
} others[] = {
    {"airtable", "POST", "/v0/meta/bases"},
    {"airtable", "GET", "/v0/bases/"},
    {"outlook_mail", "GET", "/v1.0/me/mailFolders/delta"},
    {"google_drive", "PATCH", "/upload/drive/v3/files/"}, /* the reply was not recorded */
    {"salesforce", "PATCH", "/services/data/v63.0/composite/"},
};

static bool is_other(slice app, slice method, slice path)
{
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (slice_eq_cstr(app, others[i].app) && slice_eq_cstr(method, others[i].method) &&
            slice_starts_with(path, slice_cstr(others[i].path)) &&
            (others[i].path[strlen(others[i].path) - 1] == '/' ||
             path.len == strlen(others[i].path)))
            return true;
    return false;
}

/* Whether the segment is a version: v62.0 is equivalent to v59.0, and 2026-03 at another
 * position to v3. */
static bool is_version(slice segment)
{
    slice digits = segment.len > 1 && segment.ptr[0] == 'v' ? slice_from(segment, 1) : segment;
    bool is_dated = digits.len == 7 && digits.ptr[4] == '-';
    for (size_t i = 0; i < digits.len; i++)
        if (!strchr("0123456789.-", digits.ptr[i]))
            return false;
    return digits.len > 0 && (is_dated || digits.len < segment.len);
}

/* The next segment that is not a version. */
static slice next_segment(slice *path)
{
    slice segment = slice_split(path, '/');
    while (is_version(segment) && path->len > 0)
        segment = slice_split(path, '/');
    return segment;
}

/* Compares a segment of a path with a segment of a template, in which ${...} is any non-empty
 * text. */
static bool segment_fits(slice wanted, slice segment)
{
    ptrdiff_t open = slice_find(wanted, SLICE("${"));
    if (open < 0)
        return slice_eq(wanted, segment);
    ptrdiff_t close = slice_find_char(slice_from(wanted, (size_t)open), '}');
    slice tail = slice_from(wanted, (size_t)(open + close) + 1);
    return segment.len > (size_t)open + tail.len &&
           slice_starts_with(segment, slice_first(wanted, (size_t)open)) &&
           slice_ends_with(segment, tail);
}

static bool path_fits(slice wanted, slice path)
{
    while (path.len > 0 && path.ptr[path.len - 1] == '/')
        path.len--;
    while (wanted.len > 0 && wanted.ptr[wanted.len - 1] == '/')
        wanted.len--;
    while (wanted.len > 0 && path.len > 0)
        if (!segment_fits(next_segment(&wanted), next_segment(&path)))
            return false;
    return wanted.len == 0 && path.len == 0;
}

/* The field that a GraphQL document asks for: the text after its first brace. */
static slice graphql_field(const struct json *source)
{
    slice text = json_get_str(json_pointer(source, SLICE("/request/body/json")), SLICE("query"));
    text = slice_from(text, (size_t)(slice_find_char(text, '{') + 1));
    return slice_first(text, (size_t)slice_find_char(text, '('));
}

static bool action_fits(struct bench *b, const struct catalog_action *action, slice base,
                        const struct json *record)
{
    const struct json *source = parse(b, action->source);
    slice wanted = json_get_str(JSON_GET(source, "request"), SLICE("path"));
    slice path = json_get_str(record, SLICE("path"));
    if (!slice_eq(json_get_str(JSON_GET(source, "request"), SLICE("method")),
                  json_get_str(record, SLICE("method"))))
        return false;
    if (slice_eq_cstr(wanted, "/graphql"))
        return json_get(json_pointer(record, SLICE("/reply/data")), graphql_field(source)) != NULL;
    slice whole = arena_printf(&b->arena, "%.*s%.*s", SLICE_ARG(base), SLICE_ARG(wanted));
    return path_fits(wanted, path) || path_fits(whole, path);
}

static slice reply_text(struct bench *b, const struct json *record)
{
    const struct json *reply = JSON_GET(record, "reply");
    struct buf text;
    if (json_is(reply, JSON_STRING)) /* a body that was not JSON, or no body */
        return json_str(reply);
    buf_init(&text, FILE_BYTES_MAX);
    json_write(&text, reply);
    slice copy = arena_dup(&b->arena, buf_slice(&text));
    buf_deinit(&text);
    return copy;
}

static slice base_path(const struct catalog_integration *integration, struct bench *b)
{
    const struct json *source = parse(b, integration->source);
    slice base = slice_from(json_get_str(source, SLICE("base_url")), strlen("https://"));
    ptrdiff_t slash = slice_find_char(base, '/');
    return slash < 0 ? SLICE("") : slice_from(base, (size_t)slash);
}

/* Whether it is an error with status 200: ok is false in Slack's reply, or Salesforce stored none
 * of the records. */
static bool is_refusal(const struct json *reply)
{
    if (json_is(reply, JSON_ARRAY) && reply->count == 1)
        return !json_get_bool(json_at(reply, 0), SLICE("success"), true);
    return !json_get_bool(reply, SLICE("ok"), true);
}

/* The number of actions that the reply belongs to. An error belongs to none. */
static size_t check_record(struct bench *b, const struct catalog_integration *integration,
                           slice base, const struct json *record, size_t *bad)
{
    int64_t status = 0;
    const struct json *type = json_pointer(record, SLICE("/headers/content-type"));
    size_t matched = 0;
    assert_true(json_to_i64(JSON_GET(record, "status"), &status));
    if (status < 200 || status > 299 || is_refusal(JSON_GET(record, "reply")) ||
        is_other(integration->integration_id, json_get_str(record, SLICE("method")),
                 json_get_str(record, SLICE("path"))))
        return 0;
    for (size_t i = 0; i < integration->action_count; i++) {
        const struct catalog_action *action =
            catalog_find_action(integration, integration->actions[i].action_id, NULL);
        /* If an action makes several requests, its last reply decides. This is the first. */
        if (action->then_count > 0 || !action_fits(b, action, base, record))
            continue;
        matched++;
        read_reply(action, 0, (unsigned)status,
                   type ? arena_printf(&b->arena, "%.*s", SLICE_ARG(json_str(type))).ptr : "",
                   reply_text(b, record));
        if (seen.reason == EXEC_SUCCEEDED && !seen.is_view_bad)
            continue;
        print_error("%.*s: %s\n", SLICE_ARG(json_get_str(record, SLICE("id"))), seen.text);
        (*bad)++;
    }
    return matched;
}

static size_t check_file(struct bench *b, const struct catalog_integration *integration, slice text,
                         size_t *bad)
{
    slice base = base_path(integration, b);
    size_t matched = 0;
    while (text.len > 0) {
        slice line = slice_split(&text, '\n');
        if (line.len == 0)
            continue;
        matched += check_record(b, integration, base, parse(b, line), bad);
    }
    return matched;
}

static void recorded_successes_stay_successes(void **state)
{
    struct bench *b = *state;
    const char *folder = getenv("SLUICE_CORPORA");
    size_t files = 0, matched = 0, bad = 0;
    assert_int_equal(catalog_open_heads(b->catalog), OK);
    for (size_t i = 0; i < b->catalog->integration_count; i++) {
        const struct catalog_integration *integration = b->catalog->integrations[i];
        struct catalog_source file;
        struct catalog_report *report = mem_zalloc(sizeof(*report));
        slice path = arena_printf(&b->arena, "%s/recordings/%.*s.jsonl",
                                  folder ? folder : "../shared/corpora",
                                  SLICE_ARG(integration->integration_id));
        catalog_report_init(report);
        if (catalog_read_file(path, &b->arena, FILE_BYTES_MAX, &file, report)) {
            files++;
            size_t count = check_file(b, integration, file.text, &bad);
            if (count == 0)
                fail_msg("%.*s: no recorded reply belongs to an action",
                         SLICE_ARG(integration->integration_id));
            matched += count;
        }
        catalog_report_deinit(report);
        mem_free(report);
    }
    if (files == 0)
        skip();
    print_message("%zu replies of %zu apps; views: %zu of %zu bytes in %zu\n", matched, files,
                  seen.view_bytes, seen.output_bytes, seen.views);
    assert_in_range(seen.views, 15, 1000);
    assert_true(seen.view_bytes * 2 < seen.output_bytes);
    assert_int_equal(bad, 0);
    assert_true(matched >= MATCHED_MIN);
}

/* ---- what is not a success ---- */

static bool is_refused(const struct catalog_action *action, const char *type, const char *body)
{
    read_reply(action, action->then_count, 200, type, slice_cstr(body));
    return seen.reason != EXEC_SUCCEEDED && (seen.reason != EXEC_REPLY_UNREADABLE ||
                                             seen.is_unknown == (action->level != LEVEL_READ));
}

/* Returns the first of these replies that counts as a success, or NULL. */
static const char *find_leak(const struct catalog_action *action)
{
    const struct catalog_reply *reply = catalog_reply_at(action, action->then_count);
    if (reply->body == REPLY_TEXT || reply->body == REPLY_BYTES)
        return NULL;
    if (!is_refused(action, "text/html; charset=utf-8", page) || !is_refused(action, "", page))
        return "a web page";
    if (!is_refused(action, "application/json", page))
        return "a web page that claims to be JSON";
    if (reply->body != REPLY_JSON)
        return NULL;
    if (!is_refused(action, "application/json", "") || !is_refused(action, "", ""))
        return "an empty body";
    if (!is_refused(action, "text/plain", "OK"))
        return "a text";
    if (!reply->is_kind_known || reply->kind == REPLY_KIND_ANY)
        return "an array or an object: its kind is not known";
    if (!is_refused(action, "application/json",
                    reply->kind == REPLY_KIND_OBJECT ? "[{\"id\":1}]" : "{\"id\":1}"))
        return "JSON of the other kind";
    if (!is_refused(action, "application/json", error_object))
        return "an error object";
    if (action->level != LEVEL_READ && !is_refused(action, "application/json", "{}"))
        return "an empty object, for a write";
    return NULL;
}

static void nothing_else_goes_for_a_success(void **state)
{
    struct bench *b = *state;
    size_t bad = 0, writes = 0;
    assert_int_equal(catalog_open_heads(b->catalog), OK);
    for (size_t i = 0; i < b->catalog->integration_count; i++)
        for (size_t j = 0; j < b->catalog->integrations[i]->action_count; j++) {
            const struct catalog_action *action =
                catalog_find_tool(b->catalog, b->catalog->integrations[i]->actions[j].tool_name);
            const char *leak = find_leak(action);
            writes += action->level != LEVEL_READ && action->reply.required_count > 0;
            if (!leak)
                continue;
            print_error("%.*s takes %s for a success (%s)\n", SLICE_ARG(action->tool_name), leak,
                        seen.text);
            bad++;
        }
    assert_int_equal(bad, 0);
    assert_true(writes > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CATALOG_TEST(recorded_successes_stay_successes),
        CATALOG_TEST(nothing_else_goes_for_a_success),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
