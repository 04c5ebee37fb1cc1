/*
 * See call.h.
 */
#include "provider/call.h"

#include <stdio.h>

#include "schema/schema.h"

enum { APP_BYTES_MAX = 16 * 1024 * 1024 };

/* params gets the segments that the stars match. */
static bool matches(const char *pattern, const slice *segments, size_t count, slice params[2])
{
    slice rest = slice_cstr(pattern);
    /* Rejects most patterns by their first character. */
    if (*pattern != '*' && (!count || !segments->len || *pattern != *segments->ptr))
        return false;
    for (; rest.ptr && count; segments++, count--) {
        slice wanted = slice_split(&rest, '/');
        if (slice_eq(wanted, SLICE("*")) && segments->len)
            params[params[0].ptr != NULL] = *segments;
        else if (!slice_eq(wanted, *segments))
            return false;
    }
    return !rest.ptr && !count;
}

bool call_is_below(const struct call *call, const char *segment)
{
    return call->http->segment_count && slice_eq_cstr(call->http->segments[0], segment);
}

bool call_wants(const struct call *call, slice name, slice value)
{
    bool is_there = false;
    for (size_t i = 0; i < call->query_count; i++) {
        if (!slice_starts_with(call->query[i].name, name))
            continue;
        is_there = true;
        if (slice_eq_nocase(call->query[i].value, value))
            return true;
    }
    return !is_there;
}

bool call_route(struct call *call, const struct route *routes, size_t count, const slice *segments,
                size_t segment_count)
{
    for (size_t i = 0; i < count; i++) {
        slice params[2] = {SLICE_NONE, SLICE_NONE};
        if (routes[i].method != (int)call->method ||
            !matches(routes[i].pattern, segments, segment_count, params))
            continue;
        call->route = &routes[i];
        call->id = params[0];
        call->id2 = params[1];
        return true;
    }
    return false;
}

/* Reads the query of a GET as an object. A value of digits becomes a number. */
static const struct json *read_query(struct call *call)
{
    struct json *query = ARENA_NEW(call->arena, struct json);
    int64_t number;
    ASSERT(query);
    *query = json_object();
    for (size_t i = 0; i < call->query_count; i++) {
        slice text = call->query[i].value;
        json_object_put(call->arena, query, call->query[i].name,
                        slice_to_i64(text, &number) ? json_i64(number) : json_string(text));
    }
    return query;
}

bool call_body(struct call *call)
{
    static const struct json empty = {.type = JSON_OBJECT};
    static const struct json_limits limits = {JSON_REQUEST_DEPTH_MAX, .mend_text = true};
    const char *name = call->route->name ? call->route->name : "";
    struct schema_report report;
    struct err err = {0};
    call->body = call->method == HTTP_METHOD_GET ? read_query(call)
                 : call->http->body.len ? json_parse(call->arena, call->http->body, &limits, &err)
                                        : &empty;
    if (!call->body)
        return call_fail(call, 400, "parse", slice_cstr(err.text));
    struct json named = json_object();
    json_object_set(call->arena, &named, slice_cstr(name), *call->body);
    schema_report_init(&report, call->arena, SLICE_NONE);
    bool is_any = !call->app->requests || (!call->route->name && call->method == HTTP_METHOD_GET);
    return is_any || schema_validate(call->app->requests, &named, &report) ||
           call_fail(
               call, 400, "body",
               arena_printf(call->arena, "body%.*s: %.*s",
                            SLICE_ARG(slice_from(report.violations[0].pointer, 1 + strlen(name))),
                            SLICE_ARG(report.violations[0].message)));
}

bool call_reply(struct call *call, unsigned status, const struct json *value)
{
    struct json_writer w = reply_json(call->reply, status);
    json_put(&w, value);
    return status < 300;
}

struct json call_uuid(struct call *call)
{
    char text[UUID_TEXT_LEN + 1];
    struct uuid id;
    for (int i = 0; i < 2; i++) {
        uint64_t bits = rng_next(&call->provider->rng);
        memcpy(id.bytes + 8 * i, &bits, 8);
    }
    id.bytes[6] = (uint8_t)(0x40 | (id.bytes[6] & 0x0f)); /* version 4 */
    id.bytes[8] = (uint8_t)(0x80 | (id.bytes[8] & 0x3f));
    uuid_format(id, text);
    return json_string_dup(call->arena, slice_cstr(text));
}

bool call_fail(struct call *call, unsigned status, const char *name, slice message)
{
    struct arena *arena = call->arena;
    const struct json *known = json_get(JSON_GET(call->app->data, "errors"), slice_cstr(name));
    slice header = json_get_str(known, SLICE("header"));
    if (!message.ptr)
        message = json_get_str(known, SLICE("message"));
    if (!message.ptr)
        message = slice_cstr(http_status_text(status));
    if (!call->app->data)
        return reply_error(call->reply, status, message);
    if (header.ptr)
        reply_header(call->reply, SLICE("WWW-Authenticate"), header);
    struct json scope = provider_copy(arena, known);
    message = arena_printf(arena, "%.*s%.*s", SLICE_ARG(json_get_str(known, SLICE("before"))),
                           SLICE_ARG(message));
    json_object_put(arena, &scope, SLICE("http"), json_i64(status));
    json_object_put(arena, &scope, SLICE("message"), json_string(message));
    json_object_put(arena, &scope, SLICE("id"), call_uuid(call));
    struct json error = shapes_make(&call->app->shapes, arena, SLICE("error"), &scope);
    return call_reply(call, status, &error);
}

bool call_error(struct call *call, unsigned status)
{
    char number[SLICE_U64_MAX + 1];
    (void)snprintf(number, sizeof(number), "%u", status);
    bool is_known = json_get(JSON_GET(call->app->data, "errors"), slice_cstr(number));
    return call_fail(call, status, is_known ? number : status < 500 ? "4xx" : "5xx", SLICE_NONE);
}

bool call_bad(struct call *call, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    slice message = arena_vprintf(call->arena, fmt, args);
    va_end(args);
    return call_fail(call, 400, "invalid", message);
}

const struct json *call_get(const struct call *call, const char *name)
{
    return json_get(call->body, slice_cstr(name));
}

void shapes_init(struct shapes *shapes, struct arena *arena, const struct json *data)
{
    struct err err;
    *shapes = (struct shapes){data, ARENA_ARRAY(arena, struct expr_template *, data->count)};
    for (uint32_t i = 0; i < data->count; i++)
        ASSERT((shapes->templates[i] =
                    expr_template_compile(arena, &data->as.members[i].value, &err)));
}

struct json shapes_make(const struct shapes *shapes, struct arena *arena, slice name,
                        const struct json *scope)
{
    struct expr_budget budget;
    struct json out;
    uint32_t i = 0;
    expr_budget_init(&budget);
    budget.bytes_max = budget.visits_max = 4 * (size_t)PROVIDER_BODY_BYTES_MAX;
    while (!slice_eq(json_str(&shapes->data->as.members[i].key), name))
        i++;
    bool is_ok = !expr_template_eval(shapes->templates[i], scope, 0, &budget, arena, &out, NULL);
    return is_ok ? out : json_null;
}

void app_init(struct app *app, const char *name, void (*handle)(struct call *call), size_t made_max)
{
    struct err err;
    *app = (struct app){.name = name, .handle = handle};
    arena_init(&app->arena, APP_BYTES_MAX);
    store_init(&app->store, made_max);
    app->data = provider_data(&app->arena, name);
    shapes_init(&app->shapes, &app->arena, JSON_GET(app->data, "shapes"));
    app->requests = schema_compile(&app->arena, JSON_GET(app->data, "requests"), true, &err);
    ASSERT(app->requests);
}

void app_deinit(struct app *app)
{
    store_deinit(&app->store);
    arena_deinit(&app->arena);
}
