/*
 * Parses a request: the names in its query string and body, and the values in the query string. The
 * steps of request.c check names before the endpoint begins; the endpoint checks values, since it
 * knows their limits. Each refusal contains the name, the expected value and the given value.
 */
#include "api/request.h"

enum { ARGUMENT_BYTES_MAX = 64 * 1024 };

/* Returns what to do instead of naming a user there; NULL: the name means something else. Ignored,
 * the request would act for the account. Over /mcp a tool's arguments are the model's, which knows
 * no header. */
static const char *right_user(const struct api_request *request, const struct api_names *names,
                              slice name)
{
    if (request->outer || !api_names_is_user(name) || uuid_is_nil(request->serve.grant.key_id))
        return NULL;
    bool has_input = api_names_has(names, SLICE("input")), has_arguments = names->wrapper != NULL;
    if (request->endpoint->is_of_account)
        return "no user, as this path is for the account alone";
    return has_arguments ? "the header Sluice-User, or put it inside arguments if it is one of them"
           : has_input   ? "the header Sluice-User, or put it inside input if it is an argument"
                         : "the header Sluice-User";
}

/* Returns the sentence about a name that is misspelt, or a user's; SLICE_NONE: it is neither. */
static slice name_fault(struct api_request *request, const struct api_names *names, slice name,
                        const char *what)
{
    if (api_names_has(names, name))
        return SLICE_NONE;
    const char *right = api_names_right(names, name);
    if (!right)
        right = right_user(request, names, name);
    return right
               ? api_sentence(request, "%.*s is not a %s: use %s",
                              SLICE_ARG(json_excerpt(name, &request->serve.op.arena)), what, right)
               : SLICE_NONE;
}

/* Of a request without parameters, or without members: only users' names are refused. */
static const struct api_names no_names = {.own = {NULL}};

slice api_query_fault(struct api_request *request)
{
    const struct api_names *names = request->endpoint->query ? request->endpoint->query : &no_names;
    size_t count;
    if (request->serve.exchange->head.query.len == 0)
        return SLICE_NONE;
    const struct http_header *params = http_query_all(request->serve.exchange, &count);
    for (size_t i = 0; i < count; i++) {
        slice name = params[i].name;
        slice fault = name_fault(request, names, name, "query parameter here");
        if (fault.ptr)
            return fault;
        if (api_names_has(names, name) && http_header_count(params, i, name) > 0)
            return api_sentence(request, "%.*s is given more than once", SLICE_ARG(name));
    }
    return SLICE_NONE;
}

slice api_members_fault(struct api_request *request, const struct api_names *names,
                        const struct json *body)
{
    names = names ? names : &no_names;
    const struct json *inner = names->wrapper ? json_get(body, slice_cstr(names->wrapper)) : NULL;
    bool is_free = names->wrapper && (!inner || inner->type == JSON_NULL);
    slice fault = SLICE_NONE;
    for (uint32_t i = 0; i < body->count && !is_free && !fault.ptr; i++)
        fault = name_fault(request, names, json_str(&body->as.members[i].key),
                           "member of this request");
    return fault;
}

slice api_misplaced_fault(struct api_request *request, const struct api_names *names,
                          const struct json *body, const struct json *input_schema)
{
    const struct json *inputs = JSON_GET(input_schema, "properties");
    const char *inside = names->wrapper ? names->wrapper : "input";
    for (uint32_t i = 0; inputs && i < body->count; i++) {
        slice name = json_str(&body->as.members[i].key);
        if (!api_names_has(names, name) && json_get(inputs, name))
            return api_sentence(request, "%.*s is not a member of this request: put it inside %s",
                                SLICE_ARG(json_excerpt(name, &request->serve.op.arena)), inside);
    }
    return SLICE_NONE;
}

/* Returns a value as it would be written in a query; SLICE_NONE if it is null or absent, or if out
 * of memory. */
static slice argument_text(struct api_request *request, const struct json *value)
{
    if (!value || value->type == JSON_NULL || value->type == JSON_STRING)
        return json_str(value);
    return json_text_of(value, &request->serve.op.arena, ARGUMENT_BYTES_MAX);
}

/* Returns SLICE_NONE if the parameter is absent. A name that is not in the endpoint's table is a
 * bug: api_query_fault would not find its misspellings, and openapi.json would not describe it. */
static slice value_of(struct api_request *request, const char *name)
{
    ASSERT(api_names_has(request->endpoint->query, slice_cstr(name)));
    return request->arguments
               ? argument_text(request, json_get(request->arguments, slice_cstr(name)))
               : http_query_get(request->serve.exchange, slice_cstr(name));
}

/* Answers a wrong value; returns false, so that a caller can return the result. In the sentence the
 * value is truncated and escaped. */
static bool refuse_parameter(struct api_request *request, const char *name, const char *wanted,
                             slice got)
{
    (void)api_reply_error(request, 400, "%s must be %s, got \"%.*s\"", name, wanted,
                          SLICE_ARG(json_excerpt(got, &request->serve.op.arena)));
    return false;
}

slice api_query_text(struct api_request *request, const char *name)
{
    slice value = value_of(request, name);
    return value.len > 0 ? value : SLICE_NONE;
}

bool api_query_count(struct api_request *request, const char *name, uint64_t default_value,
                     uint64_t max, uint64_t *value)
{
    slice text = value_of(request, name);
    *value = default_value;
    if (!text.ptr || slice_to_u64_capped(text, max, value))
        return true;
    return refuse_parameter(request, name, "a whole number", text);
}

bool api_query_positive(struct api_request *request, const char *name, uint64_t default_value,
                        uint64_t max, uint64_t *value)
{
    slice text = value_of(request, name);
    *value = default_value;
    if (!text.ptr || (slice_to_u64_capped(text, max, value) && *value > 0))
        return true;
    return refuse_parameter(request, name, "a positive integer", text);
}

bool api_query_clamped(struct api_request *request, const char *name, uint64_t default_value,
                       uint64_t max, uint64_t *value)
{
    slice text = value_of(request, name);
    bool is_negative = slice_starts_with(text, SLICE("-"));
    *value = default_value;
    if (!text.ptr)
        return true;
    if (!slice_to_u64_capped(is_negative ? slice_from(text, 1) : text, max, value))
        return refuse_parameter(request, name, "a whole number", text);
    if (is_negative || *value < 1)
        *value = 1;
    return true;
}

bool api_query_bool(struct api_request *request, const char *name, bool *value)
{
    slice text = value_of(request, name);
    *value = false;
    if (!text.ptr || slice_to_bool(text, value))
        return true;
    return refuse_parameter(request, name, "true, 1, yes, false, 0 or no", text);
}
