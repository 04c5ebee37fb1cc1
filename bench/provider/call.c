/*
 * See call.h.
 */
#include "provider/call.h"

#include "schema/schema.h"

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

int call_body(struct call *call, const struct schema *requests, struct err *err)
{
    static const struct json empty = {.type = JSON_OBJECT};
    static const struct json_limits limits = {JSON_REQUEST_DEPTH_MAX, .mend_text = true};
    const char *name = call->route->name ? call->route->name : "";
    struct schema_report report;
    call->body = call->method == HTTP_METHOD_GET ? read_query(call)
                 : call->http->body.len ? json_parse(call->arena, call->http->body, &limits, err)
                                        : &empty;
    if (!call->body)
        return err->code;
    struct json named = json_object();
    json_object_set(call->arena, &named, slice_cstr(name), *call->body);
    schema_report_init(&report, call->arena, SLICE_NONE);
    bool is_any = !requests || (!call->route->name && call->method == HTTP_METHOD_GET);
    if (is_any || schema_validate(requests, &named, &report))
        return OK;
    return err_set(err, ERR_INVALID, "body%.*s: %.*s",
                   SLICE_ARG(slice_from(report.violations[0].pointer, 1 + strlen(name))),
                   SLICE_ARG(report.violations[0].message));
}

bool call_reply(struct call *call, unsigned status, const struct json *value)
{
    struct json_writer w = reply_json(call->reply, status);
    json_put(&w, value);
    return status < 300;
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
