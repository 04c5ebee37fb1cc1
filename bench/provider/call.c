/*
 * See call.h.
 */
#include "provider/call.h"

#include "provider/ledger.h"

/* params gets what the stars are for. */
static bool matches(const char *pattern, const slice *segments, size_t count, slice params[2])
{
    slice rest = slice_cstr(pattern);
    /* Most patterns begin otherwise. */
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

bool call_route(struct call *call, const struct route *routes, size_t count, const slice *segments,
                size_t segment_count)
{
    for (size_t i = 0; i < count; i++) {
        slice params[2] = {SLICE_NONE, SLICE_NONE};
        if (routes[i].method != (int)call->http->method ||
            !matches(routes[i].pattern, segments, segment_count, params))
            continue;
        call->route = &routes[i];
        call->id = params[0];
        call->id2 = params[1];
        return true;
    }
    return false;
}

bool call_body(struct call *call, struct err *err)
{
    static const struct json empty = {.type = JSON_OBJECT};
    static const struct json_limits limits = {JSON_REQUEST_DEPTH_MAX, .mend_text = true};
    call->body = call->http->body.len ? json_parse(call->arena, call->http->body, &limits, err)
                                      : &empty;
    return call->body != NULL;
}

bool call_reply(struct call *call, unsigned status, const struct json *value)
{
    struct json_writer w = reply_json(call->reply, status);
    json_put(&w, value);
    return status < 300;
}

void call_record(struct call *call, slice object_id, slice marker)
{
    ledger_add(call->provider->ledger, call->http, call->app, call->route->name, object_id, marker);
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
