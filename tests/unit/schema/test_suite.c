/*
 * JSON-Schema-Test-Suite, draft 2020-12, from the corpora (skipped without them): every required
 * test, and the optional tests except those named here, with the remotes bundled into each schema.
 */
#include "support/json_test.h"

#include <dirent.h>
#include <sys/stat.h>

#include "base/map.h"
#include "schema/schema.h"

struct remotes {
    struct arena arena;
    struct json defs; /* by URI */
};

struct tally {
    size_t passed, left_out, failed;
};

/* Tests that are known to fail: the file, "group / test", and the reason. */
struct exception {
    const char *file, *name, *reason;
};

struct suite {
    struct remotes *remotes;
    const struct exception *exceptions;
    size_t exception_count;
    bool assert_formats;
    struct tally tally;
};

/* A $schema names a document that would have to be fetched before the schema is read. */
#define DIALECT "the vocabularies of a meta-schema are not read: nothing is fetched"

/* Only the form of internationalized host names is checked (schema/format.h). */
#define TABLES   "the code point tables of RFC 5892 are not built in"
#define CONTEXT  "the context rules of RFC 5892 appendix A are not checked"
#define BIDI     "the Bidi rule of RFC 5893 is not checked"
#define PUNYCODE "A-labels are not decoded"

static const struct exception format_exceptions[] = {
    {"hostname.json",
     "validation of A-label (punycode) host names / contains illegal char U+302E Hangul single dot "
     "tone mark",
     TABLES},
    {"hostname.json",
     "validation of A-label (punycode) host names / Begins with a Spacing Combining Mark", TABLES},
    {"hostname.json", "validation of A-label (punycode) host names / Begins with a Nonspacing Mark",
     TABLES},
    {"hostname.json", "validation of A-label (punycode) host names / Begins with an Enclosing Mark",
     TABLES},
    {"hostname.json",
     "validation of A-label (punycode) host names / Exceptions that are DISALLOWED, right-to-left "
     "chars",
     TABLES},
    {"hostname.json",
     "validation of A-label (punycode) host names / Exceptions that are DISALLOWED, left-to-right "
     "chars",
     TABLES},
    {"hostname.json",
     "validation of A-label (punycode) host names / MIDDLE DOT with no preceding 'l'", CONTEXT},
    {"hostname.json",
     "validation of A-label (punycode) host names / MIDDLE DOT with nothing preceding", CONTEXT},
    {"hostname.json",
     "validation of A-label (punycode) host names / MIDDLE DOT with no following 'l'", CONTEXT},
    {"hostname.json",
     "validation of A-label (punycode) host names / MIDDLE DOT with nothing following", CONTEXT},
    {"hostname.json",
     "validation of A-label (punycode) host names / Greek KERAIA not followed by Greek", CONTEXT},
    {"hostname.json",
     "validation of A-label (punycode) host names / Greek KERAIA not followed by anything",
     CONTEXT},
    {"hostname.json",
     "validation of A-label (punycode) host names / Hebrew GERESH not preceded by Hebrew", CONTEXT},
    {"hostname.json",
     "validation of A-label (punycode) host names / Hebrew GERESH not preceded by anything",
     CONTEXT},
    {"hostname.json",
     "validation of A-label (punycode) host names / Hebrew GERSHAYIM not preceded by Hebrew",
     CONTEXT},
    {"hostname.json",
     "validation of A-label (punycode) host names / Hebrew GERSHAYIM not preceded by anything",
     CONTEXT},
    {"hostname.json",
     "validation of A-label (punycode) host names / KATAKANA MIDDLE DOT with no Hiragana, "
     "Katakana, or Han",
     CONTEXT},
    {"hostname.json",
     "validation of A-label (punycode) host names / KATAKANA MIDDLE DOT with no other characters",
     CONTEXT},
    {"hostname.json",
     "validation of A-label (punycode) host names / Arabic-Indic digits mixed with Extended "
     "Arabic-Indic digits",
     CONTEXT},
    {"hostname.json",
     "validation of A-label (punycode) host names / ZERO WIDTH JOINER not preceded by Virama",
     CONTEXT},
    {"hostname.json",
     "validation of A-label (punycode) host names / ZERO WIDTH JOINER not preceded by anything",
     CONTEXT},
    {"hostname.json",
     "validation of A-label (punycode) host names / contains \"--\" in the 3rd and 4th position",
     PUNYCODE},
    {"idn-hostname.json",
     "validation of internationalized host names / illegal first char U+302E Hangul single dot "
     "tone mark",
     TABLES},
    {"idn-hostname.json",
     "validation of internationalized host names / contains illegal char U+302E Hangul single dot "
     "tone mark",
     TABLES},
    {"idn-hostname.json",
     "validation of internationalized host names / U-label contains \"--\" in the 3rd and 4th "
     "position",
     PUNYCODE},
    {"idn-hostname.json",
     "validation of internationalized host names / Begins with a Spacing Combining Mark", TABLES},
    {"idn-hostname.json",
     "validation of internationalized host names / Begins with a Nonspacing Mark", TABLES},
    {"idn-hostname.json",
     "validation of internationalized host names / Begins with an Enclosing Mark", TABLES},
    {"idn-hostname.json",
     "validation of internationalized host names / Exceptions that are DISALLOWED, right-to-left "
     "chars",
     TABLES},
    {"idn-hostname.json",
     "validation of internationalized host names / Exceptions that are DISALLOWED, left-to-right "
     "chars",
     TABLES},
    {"idn-hostname.json",
     "validation of internationalized host names / MIDDLE DOT with no preceding 'l'", CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / MIDDLE DOT with nothing preceding", CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / MIDDLE DOT with no following 'l'", CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / MIDDLE DOT with nothing following", CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / Greek KERAIA not followed by Greek", CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / Greek KERAIA not followed by anything", CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / Hebrew GERESH not preceded by Hebrew", CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / Hebrew GERESH not preceded by anything",
     CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / Hebrew GERSHAYIM not preceded by Hebrew",
     CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / Hebrew GERSHAYIM not preceded by anything",
     CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / KATAKANA MIDDLE DOT with no Hiragana, Katakana, "
     "or Han",
     CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / KATAKANA MIDDLE DOT with no other characters",
     CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / Arabic-Indic digits mixed with Extended "
     "Arabic-Indic digits",
     CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / ZERO WIDTH JOINER not preceded by Virama",
     CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / ZERO WIDTH JOINER not preceded by anything",
     CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / zero width non-joiner must pass at every "
     "occurrence",
     CONTEXT},
    {"idn-hostname.json",
     "validation of internationalized host names / Bidi domain name with a digit-first label is "
     "invalid",
     BIDI},
    {"idn-hostname.json",
     "validation of internationalized host names / label starting with a digit before a "
     "right-to-left letter is invalid",
     BIDI},
    {"idn-hostname.json",
     "validation of internationalized host names / left-to-right label containing a right-to-left "
     "letter is invalid",
     BIDI},
    {"idn-hostname.json",
     "validation of internationalized host names / right-to-left label mixing both digit types is "
     "invalid",
     BIDI},
    {"idn-hostname.json",
     "validation of internationalized host names / A-label that decodes to a disallowed code point "
     "is invalid",
     PUNYCODE},
    {"idn-hostname.json",
     "validation of internationalized host names / A-label that decodes to a Bidi rule violation "
     "is invalid",
     BIDI},
    {"idn-hostname.json",
     "validation of internationalized host names / non-canonical Punycode that does not re-encode "
     "to itself is invalid",
     PUNYCODE},
};

/* ---- remotes ---- */

static void bundle_one(struct remotes *remotes, slice name, struct json document)
{
    json_object_set(&remotes->arena, &remotes->defs, name, document);
}

/* Adds the document under its own $id, or under the URI that it would be fetched from. If these
 * differ, the URI is a schema that refers to the $id. */
static void bundle(struct remotes *remotes, slice uri, struct json *document)
{
    slice id = json_get_str(document, SLICE("$id"));
    struct json address = json_string(uri);
    if (document->type != JSON_OBJECT || slice_eq(id, uri)) {
        bundle_one(remotes, uri, *document);
        return;
    }
    if (!id.ptr) {
        json_object_set(&remotes->arena, document, SLICE("$id"), address);
        bundle_one(remotes, uri, *document);
        return;
    }
    struct json alias = json_object();
    json_object_set(&remotes->arena, &alias, SLICE("$id"), address);
    json_object_set(&remotes->arena, &alias, SLICE("$ref"), json_string(id));
    bundle_one(remotes, id, *document);
    bundle_one(remotes, uri, alias);
}

static void load_remotes(struct remotes *remotes, const char *folder, const char *uri)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        slice path = arena_printf(&remotes->arena, "%s/%s", folder, entry->d_name);
        slice name = arena_printf(&remotes->arena, "%s/%s", uri, entry->d_name);
        struct stat info;
        assert_int_equal(stat(path.ptr, &info), 0);
        if (S_ISDIR(info.st_mode)) {
            load_remotes(remotes, path.ptr, name.ptr);
            continue;
        }
        struct err err = {0};
        struct json *document = json_parse(&remotes->arena, read_file(&remotes->arena, path.ptr),
                                           &json_limits_provider, &err);
        assert_non_null(document);
        bundle(remotes, name, document);
    }
    closedir(dir);
}

/* The schema with all remote documents among its $defs: nothing is fetched. */
static const struct json *with_remotes(const struct suite *suite, struct arena *arena,
                                       const struct json *schema)
{
    if (schema->type != JSON_OBJECT)
        return schema;
    struct json *whole = ARENA_NEW(arena, struct json);
    *whole = json_object();
    struct json defs = json_object();
    for (uint32_t i = 0; i < schema->count; i++) {
        const struct json_member *member = &schema->as.members[i];
        if (slice_eq(json_str(&member->key), SLICE("$defs")))
            defs = member->value;
        else
            json_object_set(arena, whole, json_str(&member->key), member->value);
    }
    for (uint32_t i = 0; i < suite->remotes->defs.count; i++) {
        const struct json_member *member = &suite->remotes->defs.as.members[i];
        json_object_set(arena, &defs, json_str(&member->key), member->value);
    }
    json_object_set(arena, whole, SLICE("$defs"), defs);
    return whole;
}

static int remotes_setup(void **state)
{
    struct remotes *remotes = mem_zalloc(sizeof(*remotes));
    arena_init(&remotes->arena, UNIT_ARENA_BYTES_MAX);
    remotes->defs = json_object();
    const char *folder = corpus_path(&remotes->arena, "json-schema/remotes");
    struct stat info;
    if (stat(folder, &info) == 0)
        load_remotes(remotes, folder, "http://localhost:1234");
    *state = remotes;
    return 0;
}

static int remotes_teardown(void **state)
{
    struct remotes *remotes = *state;
    arena_deinit(&remotes->arena);
    mem_free(remotes);
    return unit_end();
}

/* ---- running ---- */

static bool is_excepted(const struct suite *suite, const char *file, slice name)
{
    for (size_t i = 0; i < suite->exception_count; i++) {
        if (strcmp(suite->exceptions[i].file, file) == 0 &&
            slice_eq_cstr(name, suite->exceptions[i].name))
            return true;
    }
    return false;
}

/* An answer with a report must equal the answer without one, and the report must not be empty. */
static bool validate_twice(struct arena *arena, const struct schema *schema,
                           const struct json *data)
{
    struct schema_report report;
    schema_report_init(&report, arena, SLICE("/input"));
    bool is_valid = schema_validate(schema, data, NULL);
    assert_int_equal(schema_validate(schema, data, &report), is_valid);
    assert_int_equal(report.count == 0, is_valid);
    for (size_t i = 0; i < report.count; i++) {
        assert_true(report.violations[i].message.len > 0);
        assert_true(slice_starts_with(report.violations[i].pointer, SLICE("/input")));
    }
    return is_valid;
}

static void run_group(struct suite *suite, struct arena *arena, const char *file,
                      const struct json *group)
{
    struct err err = {0};
    slice group_name = json_get_str(group, SLICE("description"));
    const struct json *tests = JSON_GET(group, "tests");
    const struct schema *schema = schema_compile(
        arena, with_remotes(suite, arena, JSON_GET(group, "schema")), suite->assert_formats, &err);
    for (size_t i = 0; i < tests->count; i++) {
        const struct json *test = json_at(tests, i);
        slice test_name = json_get_str(test, SLICE("description"));
        slice name =
            arena_printf(arena, "%.*s / %.*s", SLICE_ARG(group_name), SLICE_ARG(test_name));
        bool want = json_get_bool(test, SLICE("valid"), false);
        bool is_right = schema && validate_twice(arena, schema, JSON_GET(test, "data")) == want;
        if (is_excepted(suite, file, name)) {
            suite->tally.left_out++;
            if (is_right)
                fail_msg("%s: %.*s: passes now, so it is not an exception", file, SLICE_ARG(name));
        } else if (is_right) {
            suite->tally.passed++;
        } else {
            suite->tally.failed++;
            print_message("%s: %.*s: want %s%s%s\n", file, SLICE_ARG(name),
                          want ? "valid" : "invalid", schema ? "" : "; ", err.text);
        }
    }
}

static void run_file(struct suite *suite, const char *folder, const char *file)
{
    struct arena arena;
    arena_init(&arena, UNIT_ARENA_BYTES_MAX);
    slice path = arena_printf(&arena, "%s/%s", folder, file);
    struct err err = {0};
    const struct json *groups =
        json_parse(&arena, read_file(&arena, path.ptr), &json_limits_provider, &err);
    assert_non_null(groups);
    for (size_t i = 0; i < groups->count; i++)
        run_group(suite, &arena, file, json_at(groups, i));
    arena_deinit(&arena);
}

static bool run_folder(struct suite *suite, const char *path)
{
    struct arena arena;
    arena_init(&arena, UNIT_ARENA_BYTES_MAX);
    const char *folder = corpus_path(&arena, path);
    DIR *dir = opendir(folder);
    if (!dir)
        print_message("no corpora at %s\n", folder);
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        if (slice_ends_with(slice_cstr(entry->d_name), SLICE(".json")))
            run_file(suite, folder, entry->d_name);
    }
    bool is_there = dir != NULL;
    if (dir)
        closedir(dir);
    arena_deinit(&arena);
    print_message("%s: %zu passed, %zu left out, %zu failed\n", path, suite->tally.passed,
                  suite->tally.left_out, suite->tally.failed);
    return is_there;
}

static void test_required(void **state)
{
    static const struct exception exceptions[] = {
        {"vocabulary.json",
         "schema that uses custom metaschema with with no validation vocabulary / no validation: "
         "invalid number, but it still validates",
         DIALECT},
    };
    struct suite suite = {*state, exceptions, ARRAY_LEN(exceptions), false, {0}};
    if (!run_folder(&suite, "json-schema/draft2020-12"))
        skip();
    assert_int_equal(suite.tally.failed, 0);
    assert_int_equal(suite.tally.passed, 1298);
    assert_int_equal(suite.tally.left_out, ARRAY_LEN(exceptions));
}

static void test_optional(void **state)
{
    static const struct exception exceptions[] = {
        {"cross-draft.json",
         "refs to historic drafts are processed as historic drafts / first item not a string is "
         "valid",
         "schemas of older drafts are read as 2020-12"},
        {"format-assertion.json",
         "schema that uses custom metaschema with format-assertion: false / format-assertion: "
         "false: invalid string",
         DIALECT},
        {"format-assertion.json",
         "schema that uses custom metaschema with format-assertion: true / format-assertion: "
         "true: invalid string",
         DIALECT},
    };
    struct suite suite = {*state, exceptions, ARRAY_LEN(exceptions), false, {0}};
    if (!run_folder(&suite, "json-schema/draft2020-12/optional"))
        skip();
    assert_int_equal(suite.tally.failed, 0);
    assert_int_equal(suite.tally.left_out, ARRAY_LEN(exceptions));
}

static void test_formats(void **state)
{
    struct suite suite = {*state, format_exceptions, ARRAY_LEN(format_exceptions), true, {0}};
    if (!run_folder(&suite, "json-schema/draft2020-12/optional/format"))
        skip();
    assert_int_equal(suite.tally.failed, 0);
    assert_int_equal(suite.tally.left_out, ARRAY_LEN(format_exceptions));
    assert_true(suite.tally.passed * 10 >= (suite.tally.passed + suite.tally.left_out) * 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_required, remotes_setup, remotes_teardown),
        cmocka_unit_test_setup_teardown(test_optional, remotes_setup, remotes_teardown),
        cmocka_unit_test_setup_teardown(test_formats, remotes_setup, remotes_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
