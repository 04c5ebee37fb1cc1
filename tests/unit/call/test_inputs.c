/*
 * Every input that the schemas of the built-in actions allow can be sent, and everything in the
 * input is sent. This runs over all of them, with their examples, so it also covers new actions.
 */
#include <stdlib.h>

#include "catalog/pack.h"
#include "call/build.h"
#include "support/action_test.h"

static const char credential[] = "{\"access_token\":\"a0\",\"token\":\"t0\",\"api_key\":\"k0\","
                                 "\"username\":\"u0\",\"password\":\"p0\"}";

/* A text for each of the connection's parameters. */
static struct json params_of(struct bench *b, const struct catalog_action *action)
{
    const struct json *all = JSON_GET(action->integration->connection_params, "properties");
    struct json params = json_object();
    for (uint32_t i = 0; all && i < all->count; i++)
        json_object_set(&b->arena, &params, json_str(&all->as.members[i].key),
                        json_string(SLICE("acme")));
    return params;
}

static int build(struct bench *b, const struct catalog_action *action, const struct json *input,
                 struct call_built *built)
{
    struct json params = params_of(b, action);
    bool has_auth = action->integration->auth.kind != AUTH_NONE;
    struct call_scope scope = {.input = input, .connection_params = &params};
    return call_build(action, &scope, has_auth ? bench_json(b, credential) : NULL, &b->arena, built,
                      &b->err);
}

/* The first request as one text, for comparison. */
static const char *request_text(struct bench *b, const struct catalog_action *action,
                                const struct json *input)
{
    struct call_built built;
    struct buf text;
    buf_init(&text, 16 * 1024 * 1024);
    if (build(b, action, input, &built) != OK)
        fail_msg("%.*s: %s", SLICE_ARG(action->tool_name), b->err.text);
    buf_printf(&text, "%.*s %.*s\n", SLICE_ARG(built.method), SLICE_ARG(built.url));
    for (size_t i = 0; i < built.header_count; i++)
        buf_printf(&text, "%.*s: %.*s\n", SLICE_ARG(built.headers[i].name),
                   SLICE_ARG(built.headers[i].value));
    for (size_t i = 0; i < built.body_count; i++)
        buf_append(&text, built.body[i]);
    const char *copy = arena_cstr(&b->arena, buf_slice(&text));
    buf_deinit(&text);
    return copy;
}

static bool is_valid(struct bench *b, const struct catalog_action *action, const struct json *input,
                     bool is_reported)
{
    struct schema_report report;
    struct buf text;
    schema_report_init(&report, &b->arena, SLICE("/input"));
    if (schema_validate(action->schema, input, &report))
        return true;
    buf_init(&text, 64 * 1024);
    schema_report_write(&report, &text);
    if (is_reported)
        print_error("%.*s: %.*s\n", SLICE_ARG(action->tool_name), SLICE_ARG(buf_slice(&text)));
    buf_deinit(&text);
    return false;
}

typedef void action_fn(struct bench *b, const struct catalog_action *action);

static void each_action(struct bench *b, action_fn *check)
{
    assert_int_equal(catalog_open_heads(b->catalog), OK);
    for (size_t i = 0; i < b->catalog->integration_count; i++)
        for (size_t k = 0; k < b->catalog->integrations[i]->action_count; k++) {
            slice name = b->catalog->integrations[i]->actions[k].tool_name;
            const struct catalog_action *action = catalog_find_tool(b->catalog, name);
            assert_non_null(action);
            check(b, action);
            arena_reset(&b->arena);
        }
}

/* ---- nulls ---- */

static struct json with_null(struct bench *b, const struct json *input, slice name)
{
    struct json copy = json_object();
    for (uint32_t i = 0; i < input->count; i++)
        json_object_set(&b->arena, &copy, json_str(&input->as.members[i].key),
                        input->as.members[i].value);
    json_object_set(&b->arena, &copy, name, json_null);
    return copy;
}

static size_t null_count;

/* Checks that a null that the schema accepts is sent, since it has a meaning. */
static void check_kept_null(struct bench *b, const struct catalog_action *action,
                            const struct json *input, slice name)
{
    struct json with = with_null(b, input, name);
    const struct json *kept = schema_drop_nulls(action->schema, &with, &b->arena);
    if (!json_get(kept, name) || !is_valid(b, action, kept, false))
        return;
    null_count++;
    if (strcmp(request_text(b, action, input), request_text(b, action, kept)) == 0)
        fail_msg("%.*s takes null for \"%.*s\" and does not send it", SLICE_ARG(action->tool_name),
                 SLICE_ARG(name));
}

/* Checks the input of a client in strict mode: every member is present, and omitted members are
 * null. */
static void check_nulls(struct bench *b, const struct catalog_action *action)
{
    const struct json *properties = JSON_GET(action->input_schema, "properties");
    for (uint32_t i = 0; i < action->examples->count; i++) {
        const struct json *input = JSON_GET(&action->examples->as.items[i], "input");
        struct json full = *input;
        for (uint32_t k = 0; properties && k < properties->count; k++) {
            slice name = json_str(&properties->as.members[k].key);
            if (json_get(input, name))
                continue;
            full = with_null(b, &full, name);
            check_kept_null(b, action, input, name);
        }
        const struct json *left = schema_drop_nulls(action->schema, &full, &b->arena);
        if (!is_valid(b, action, left, true))
            fail_msg("%.*s: an example with nulls is refused", SLICE_ARG(action->tool_name));
    }
}

static void nulls_are_absence_or_are_sent(void **state)
{
    each_action(*state, check_nulls);
    assert_true(null_count > 20);
}

/* ---- the largest inputs ---- */

/* The longest text that a client's request can contain (body-bytes, 8 MiB by default), and how
 * much of a text without a limit is accepted. */
enum { TEXT_BYTES_MAX = 8 * 1024 * 1024 - 64 * 1024, OPEN_TEXT_COUNT = 20 * 1000 };

static struct json text_of(struct bench *b, slice unit, size_t count)
{
    char *text = arena_alloc_text(&b->arena, unit.len * count);
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * unit.len, unit.ptr, unit.len);
    return json_string(slice_of(text, unit.len * count));
}

static size_t text_count, refused_count;

/* A URL's limit counts bytes and a schema's limit counts characters, so only letters up to the
 * schema's limit have to fit into a URL. A text may also be refused because it is not a mail
 * address or message id, which a schema cannot express. */
static bool is_refused_well(const char *why, bool is_letters)
{
    if (strstr(why, "xpression") || strstr(why, "${") || strstr(why, "()"))
        return false;
    return (strstr(why, "the URL would be longer than") && !is_letters) ||
           strstr(why, "is not an email address") || strstr(why, "must hold message ids");
}

/* An input, and the value in it that grows. */
struct growth {
    struct bench *b;
    const struct catalog_action *action;
    const struct json *input;
    struct json *value;
    slice name;
};

/* Whether no further attempt is needed: the input is sent, or is wrongly refused. */
static bool is_tried(const struct growth *at, const char *what, bool is_letters)
{
    struct call_built built;
    if (!schema_validate(at->action->schema, at->input, NULL))
        return false;
    text_count++;
    if (build(at->b, at->action, at->input, &built) == OK)
        return true;
    if (is_refused_well(at->b->err.text, is_letters))
        return false;
    print_error("%.*s: %s for %.*s: %s\n", SLICE_ARG(at->action->tool_name), what,
                SLICE_ARG(at->name), at->b->err.text);
    refused_count++;
    return true;
}

/* Checks the longest text that the schema accepts, of the longest characters that it accepts. */
static void check_text(const struct growth *at, const struct json *schema)
{
    static const char *const units[] = {"\xf0\x9f\x98\x80", "a", "1"};
    int64_t most = json_get_i64(schema, SLICE("maxLength"), OPEN_TEXT_COUNT);
    struct json before = *at->value;
    bool is_done = false;
    for (size_t i = 0; i < ARRAY_LEN(units) && !is_done; i++) {
        slice unit = slice_cstr(units[i]);
        size_t count = (uint64_t)most * unit.len > TEXT_BYTES_MAX ? TEXT_BYTES_MAX / unit.len
                                                                  : (size_t)most;
        *at->value = text_of(at->b, unit, count);
        is_done =
            is_tried(at, "the longest text", unit.len == 1 && json_get(schema, SLICE("maxLength")));
    }
    *at->value = before;
}

/* Checks as many items as the schema accepts, each a copy of the first item of the example. */
static void check_items(const struct growth *at, const struct json *schema)
{
    int64_t most = json_get_i64(schema, SLICE("maxItems"), 0);
    struct json before = *at->value, many = json_array();
    for (int64_t i = 0; i < most; i++)
        json_array_push(&at->b->arena, &many, before.as.items[0]);
    *at->value = many;
    if (most > 0)
        (void)is_tried(at, "as many items as it takes", true);
    *at->value = before;
}

static void check_value(const struct growth *at, const struct json *schema)
{
    if (slice_eq_cstr(json_get_str(schema, SLICE("type")), "string"))
        check_text(at, schema);
    if (at->value->type == JSON_ARRAY && at->value->count > 0) {
        struct growth inside = *at;
        inside.value = &at->value->as.items[0];
        check_items(at, schema);
        if (json_get(schema, SLICE("items")))
            check_value(&inside, json_get(schema, SLICE("items")));
    }
    for (uint32_t i = 0; at->value->type == JSON_OBJECT && i < at->value->count; i++) {
        struct growth inside = *at;
        const struct json *properties = json_get(schema, SLICE("properties"));
        inside.value = &at->value->as.members[i].value;
        inside.name = json_str(&at->value->as.members[i].key);
        if (properties && json_get(properties, inside.name))
            check_value(&inside, json_get(properties, inside.name));
    }
}

/* Grows each text of the first example to its maximum, then does the same for each optional text
 * that the example omits: the largest input must still be sendable. */
static void check_sizes(struct bench *b, const struct catalog_action *action)
{
    const struct json *properties = JSON_GET(action->input_schema, "properties");
    const struct json *example = JSON_GET(json_at(action->examples, 0), "input");
    struct json *input = json_dup(&b->arena, example);
    assert_non_null(input);
    struct growth at = {b, action, input, input, SLICE("input")};
    check_value(&at, action->input_schema);
    for (uint32_t i = 0; properties && i < properties->count; i++) {
        const struct json_member *property = &properties->as.members[i];
        slice name = json_str(&property->key);
        if (json_get(example, name) ||
            !slice_eq_cstr(json_get_str(&property->value, SLICE("type")), "string"))
            continue;
        struct json with = with_null(b, example, name);
        struct growth added = {b, action, &with, &with.as.members[with.count - 1].value, name};
        check_text(&added, &property->value);
    }
}

static void the_largest_inputs_can_be_sent(void **state)
{
    each_action(*state, check_sizes);
    assert_true(text_count > 500);
    assert_int_equal(refused_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CATALOG_TEST(nulls_are_absence_or_are_sent),
        CATALOG_TEST(the_largest_inputs_can_be_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
