/*
 * What the built-in manifests must offer readers, beyond what the linter requires of any manifest:
 * titles that fit, descriptions from which a model can choose, and an example and the vendor's page
 * for every action.
 */
#include "base/embed.h"
#include "base/map.h"
#include "catalog/pack.h"
#include "catalog/target.h"
#include "support/catalog_test.h"

enum {
    TITLE_MAX = 60,
    DESCRIPTION_MIN = 40,
};

/* How a value of each action is measured, and its minimum and maximum. */
struct bar {
    const char *name;
    size_t (*value_of)(const struct catalog_action *);
    size_t min, max;
};

/* Prints every action outside the limits, with its value and the limit. */
static void check_actions(const struct catalog *catalog, const struct bar *bar)
{
    size_t bad = 0, seen = 0;
    assert_int_equal(catalog_open_heads(catalog), OK);
    for (size_t i = 0; i < catalog->integration_count; i++)
        for (size_t j = 0; j < catalog->integrations[i]->action_count; j++, seen++) {
            const struct catalog_action *action =
                catalog_find_tool(catalog, catalog->integrations[i]->actions[j].tool_name);
            assert_ptr_equal(action, &catalog->integrations[i]->actions[j]);
            size_t value = bar->value_of(action);
            if (value >= bar->min && value <= bar->max)
                continue;
            bool is_low = value < bar->min;
            print_error("%.*s: %s is %zu, it must be at %s %zu\n", SLICE_ARG(action->tool_name),
                        bar->name, value, is_low ? "least" : "most", is_low ? bar->min : bar->max);
            bad++;
        }
    assert_int_equal(seen, catalog->action_count);
    assert_true(seen > 0);
    assert_int_equal(bad, 0);
}

static size_t title_bytes(const struct catalog_action *action)
{
    return action->title.len;
}

static size_t description_bytes(const struct catalog_action *action)
{
    return action->description.len;
}

static size_t example_count(const struct catalog_action *action)
{
    return json_is(action->examples, JSON_ARRAY) ? action->examples->count : 0;
}

static size_t asks_before_it_writes(const struct catalog_action *action)
{
    return action->level == LEVEL_READ || action->requires_confirmation;
}

static size_t names_its_connection(const struct catalog_action *action)
{
    const struct json *first = json_at(action->preconditions, 0);
    return slice_eq_cstr(json_get_str(first, SLICE("kind")), "connection");
}

/* Pages use these words to say what a connection must be allowed to do. */
static size_t scopes_without_words(const struct catalog_action *action)
{
    slice rest = action->scope_words;
    size_t count = 0;
    while (rest.len > 0)
        count += catalog_scope_words(action->integration, slice_split(&rest, ' ')).len == 0;
    return count;
}

/* Deletions whose descriptions say how to restore the object: from a trash, or from the history
 * of a repository. */
static const char *const restorable[] = {
    "asana_delete_task",       "dropbox_delete_file",   "dropbox_delete_files",
    "github_delete_file",      "gitlab_delete_file",    "hubspot_archive_contact",
    "hubspot_archive_company", "hubspot_archive_deal",  "hubspot_archive_ticket",
    "hubspot_archive_task",    "linear_delete_issue",   "linear_archive_cycle",
    "notion_archive_page",     "notion_delete_block",   "salesforce_delete_record",
    "trello_archive_list",     "zendesk_delete_ticket",
};

/* Not 0 if the action is not a deletion, if it says how it is undone, or if it is one of these
 * deletions. */
static size_t says_whether_it_comes_back(const struct catalog_action *action)
{
    size_t said = action->level != LEVEL_DELETE || action->undo.len > 0;
    for (size_t i = 0; i < ARRAY_LEN(restorable); i++)
        said += slice_eq_cstr(action->tool_name, restorable[i]);
    return said;
}

/* Writes with the id of something that is not where they write. */
static const char *const placeless[] = {
    "sendgrid_send_template", /* the mail goes to its recipients; the template is what it says */
};

struct naming {
    slice member;
    bool is_found;
};

static bool find_member(void *user, const struct expr *expr, slice where)
{
    struct naming *naming = user;
    char text[64];
    (void)where;
    naming->is_found |=
        slice_find(expr_source(expr), SLICE_JOIN(text, SLICE("input."), naming->member)) >= 0;
    return true;
}

/* Whether the member names a thing of the app: by the words of its name, or as a part of the path
 * of the request. */
static bool is_id(const struct catalog_action *action, slice member)
{
    static const char *const ends[] = {"_id", "_ids", "_gid", "_iid", "Id", "Ids", "Sid", "Key"};
    struct naming naming = {.member = member};
    if (slice_eq_cstr(member, "id") || slice_eq_cstr(member, "ids"))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (slice_ends_with(member, slice_cstr(ends[i])))
            return true;
    if (action->request.path)
        expr_template_each_expr(action->request.path, find_member, &naming);
    return naming.is_found;
}

/* The input of the first example, without what may be left out. *has_id: whether the rest has an
 * id. */
static struct json least_input(const struct catalog_action *action, struct arena *arena,
                               bool *has_id)
{
    struct json input = json_object();
    const struct json *full = JSON_GET(json_at(action->examples, 0), "input");
    const struct json *required = JSON_GET(action->input_schema, "required");
    for (uint32_t i = 0; json_is(required, JSON_ARRAY) && i < required->count; i++) {
        slice member = json_str(&required->as.items[i]);
        const struct json *value = json_get(full, member);
        assert_non_null(value);
        json_object_set(arena, &input, member, *value);
        *has_id |= is_id(action, member);
    }
    return input;
}

/* A person who decides about a write sees the object that it changes, whatever else is left out. */
static size_t names_its_object(const struct catalog_action *action)
{
    struct arena arena;
    bool has_id = false;
    if (action->level == LEVEL_READ)
        return 1;
    for (size_t i = 0; i < ARRAY_LEN(placeless); i++)
        if (slice_eq_cstr(action->tool_name, placeless[i]))
            return 1;
    arena_init(&arena, 1024 * 1024);
    struct json input = least_input(action, &arena, &has_id);
    struct json target = target_of(action, &input, NULL, &arena);
    /* "(not named in the input)", "(not known)" */
    bool is_named = target.count > 0 &&
                    !slice_starts_with(json_get_str(&target.as.items[0], SLICE("id")), SLICE("("));
    arena_deinit(&arena);
    return is_named || !has_id;
}

static void titles_fit_a_line(void **state)
{
    static const struct bar bar = {"bytes of the title", title_bytes, 1, TITLE_MAX};
    check_actions(((struct bench *)*state)->catalog, &bar);
}

static void every_write_names_the_object_that_it_changes(void **state)
{
    static const struct bar bar = {"a target from what the input must have", names_its_object, 1,
                                   1};
    check_actions(((struct bench *)*state)->catalog, &bar);
}

static void descriptions_say_enough_to_choose_by(void **state)
{
    static const struct bar bar = {"bytes of the description", description_bytes, DESCRIPTION_MIN,
                                   SIZE_MAX};
    check_actions(((struct bench *)*state)->catalog, &bar);
}

static void every_action_has_an_example(void **state)
{
    static const struct bar bar = {"examples", example_count, 1, SIZE_MAX};
    check_actions(((struct bench *)*state)->catalog, &bar);
}

static void every_write_needs_confirmation(void **state)
{
    static const struct bar bar = {"requires_confirmation of a write", asks_before_it_writes, 1, 1};
    check_actions(((struct bench *)*state)->catalog, &bar);
}

static void every_action_says_what_must_be_connected(void **state)
{
    static const struct bar bar = {"first precondition of kind connection", names_its_connection, 1,
                                   1};
    check_actions(((struct bench *)*state)->catalog, &bar);
}

static void every_scope_has_words(void **state)
{
    static const struct bar bar = {"scopes without words", scopes_without_words, 0, 0};
    check_actions(((struct bench *)*state)->catalog, &bar);
}

static void every_deletion_says_whether_it_comes_back(void **state)
{
    static const struct bar bar = {"undo, or a way to restore it", says_whether_it_comes_back, 1,
                                   1};
    check_actions(((struct bench *)*state)->catalog, &bar);
}

/* catalog_load also refuses duplicates. Here they are counted without its maps. */
static void tool_names_are_unique_and_within_limits(void **state)
{
    const struct catalog *catalog = ((struct bench *)*state)->catalog;
    struct map seen;
    assert_int_equal(catalog_open_heads(catalog), OK);
    map_init(&seen, catalog->action_count + 1);
    for (size_t i = 0; i < catalog->integration_count; i++)
        for (size_t j = 0; j < catalog->integrations[i]->action_count; j++) {
            struct catalog_action *action = &catalog->integrations[i]->actions[j];
            void *old = NULL;
            assert_int_equal(map_put(&seen, action->tool_name, action, &old), OK);
            assert_null(old);
            assert_true(action->tool_name.len <= CATALOG_TOOL_NAME_MAX);
        }
    map_deinit(&seen);
}

static size_t count_actions_without_page(slice name, const struct json *manifest)
{
    const struct json *actions = JSON_GET(manifest, "actions");
    size_t bad = 0;
    assert_true(json_is(actions, JSON_ARRAY));
    assert_true(slice_starts_with(json_get_str(manifest, SLICE("docs_url")), SLICE("https://")));
    for (uint32_t i = 0; i < actions->count; i++) {
        const struct json *action = &actions->as.items[i];
        if (slice_starts_with(json_get_str(action, SLICE("docs_url")), SLICE("https://")))
            continue;
        print_error("%.*s: %.*s: docs_url is \"%.*s\", it must have https://\n", SLICE_ARG(name),
                    SLICE_ARG(json_get_str(action, SLICE("action_id"))),
                    SLICE_ARG(json_get_str(action, SLICE("docs_url"))));
        bad++;
    }
    return bad;
}

/* The catalog does not know the files' names, so the sources are read. */
static void every_action_names_its_page(void **state)
{
    struct bench *b = *state;
    const struct json_limits limits = {.depth_max = 128, .refuse_dup_keys = true};
    size_t bad = 0;
    for (size_t i = 0; i < embed_integrations_count; i++) {
        slice name = slice_cstr(embed_integrations[i].name);
        slice text = slice_of(embed_integrations[i].data, embed_integrations[i].len);
        struct err err;
        const struct json *manifest = json_parse(&b->arena, text, &limits, &err);
        assert_non_null(manifest);
        bad += count_actions_without_page(name, manifest);
        /* The file has the integration's name. */
        slice id = json_get_str(manifest, SLICE("integration_id"));
        assert_true(id.len > 0 && slice_starts_with(name, id));
        assert_true(slice_eq_cstr(slice_from(name, id.len), ".json"));
    }
    assert_int_equal(bad, 0);
}

/* A hint says what the reply contains, and does not list what it lacks: "Parameter unknown, code
 * none" helps no reader. */
static size_t count_empty_hints(struct bench *b, const struct catalog_integration *app,
                                const struct catalog_error_rules *rules)
{
    static const char *const replies[] = {"{}", "[]", "{\"error\":{}}", "{\"errors\":[{}]}",
                                          "{\"errors\":{}}"};
    static const char *const fillers[] = {"unknown", "none", "not said", "null"};
    size_t bad = 0;
    for (size_t i = 0; i < rules->count * ARRAY_LEN(replies); i++) {
        const struct expr_template *hint = rules->items[i / ARRAY_LEN(replies)].hint;
        slice text = arena_printf(&b->arena,
                                  "{\"status\":400,\"headers\":{},\"input\":{},\"integration\":"
                                  "{\"name\":\"App\"},\"body\":%s}",
                                  replies[i % ARRAY_LEN(replies)]);
        const struct json *root = json_parse(&b->arena, text, &json_limits_request, NULL);
        struct expr_budget budget;
        struct json value;
        struct err err;
        expr_budget_init(&budget);
        if (!hint || expr_template_eval(hint, root, 0, &budget, &b->arena, &value, &err) != OK)
            continue;
        for (size_t f = 0; f < ARRAY_LEN(fillers); f++)
            if (slice_has_word(json_str(&value), slice_cstr(fillers[f])) ||
                slice_find(json_str(&value), arena_printf(&b->arena, " %s,", fillers[f])) >= 0 ||
                slice_find(json_str(&value), arena_printf(&b->arena, " %s.", fillers[f])) >= 0) {
                print_error("%.*s: %.*s\n", SLICE_ARG(app->integration_id),
                            SLICE_ARG(json_str(&value)));
                bad++;
            }
    }
    return bad;
}

static void hints_say_what_replies_say(void **state)
{
    struct bench *b = *state;
    size_t bad = 0;
    for (size_t i = 0; i < b->catalog->integration_count; i++) {
        const struct catalog_integration *app =
            catalog_find_integration(b->catalog, b->catalog->integrations[i]->integration_id, NULL);
        bad += count_empty_hints(b, app, &app->errors);
        for (size_t k = 0; k < app->action_count; k++)
            bad += count_empty_hints(
                b, app, &catalog_find_action(app, app->actions[k].action_id, NULL)->errors);
    }
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CATALOG_TEST(titles_fit_a_line),
        CATALOG_TEST(descriptions_say_enough_to_choose_by),
        CATALOG_TEST(every_action_has_an_example),
        CATALOG_TEST(every_write_needs_confirmation),
        CATALOG_TEST(every_write_names_the_object_that_it_changes),
        CATALOG_TEST(every_action_says_what_must_be_connected),
        CATALOG_TEST(every_scope_has_words),
        CATALOG_TEST(every_deletion_says_whether_it_comes_back),
        CATALOG_TEST(tool_names_are_unique_and_within_limits),
        CATALOG_TEST(every_action_names_its_page),
        CATALOG_TEST(hints_say_what_replies_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
