/*
 * Shared by the tests of the importer: documents in single quotes, an import, and checks of the
 * manifest and of the report.
 */
#ifndef UNIT_CATALOG_IMPORT_TEST_H
#define UNIT_CATALOG_IMPORT_TEST_H

#include "catalog/catalog.h"
#include "openapi/import.h"
#include "unit.h"

/* A document with `paths` and more top-level members. ' replaces ". */
#define DOCUMENT(version, paths, more)                                    \
    "{'openapi':'" version "','info':{'title':'Pet Shop','version':'1'}," \
    "'servers':[{'url':'https://api.example.com/v1/'}],'paths':{" paths "}" more "}"
#define GET_PETS(members) "'/pets':{'get':{'operationId':'listPets'" members "}}"
#define BODY(schema)                                                                     \
    "'/pets':{'post':{'operationId':'addPet','requestBody':{'required':true,'content':{" \
    "'application/json':{'schema':" schema "}}}}}"

static const struct json_limits limits = {.depth_max = 128, .refuse_dup_keys = true};

struct bench {
    struct arena arena;
    struct import_result result;
    struct err err;
    const struct json *manifest;
    bool is_imported;
};

static inline int setup(void **state)
{
    struct bench *b = mem_zalloc(sizeof(*b));
    arena_init(&b->arena, 64 * 1024 * 1024);
    *state = b;
    return 0;
}

static inline void forget(struct bench *b)
{
    if (b->is_imported)
        openapi_import_free(&b->result);
    b->is_imported = false;
}

static inline int teardown(void **state)
{
    struct bench *b = *state;
    forget(b);
    arena_deinit(&b->arena);
    mem_free(b);
    return unit_end();
}

/* text with ' for ". */
static inline slice quoted(struct bench *b, const char *text)
{
    return slice_cstr(unit_quoted(&b->arena, text));
}

static inline int run(struct bench *b, const char *document, const char *overrides, const char *id)
{
    struct import_options options = {.document = quoted(b, document),
                                     .overrides = quoted(b, overrides),
                                     .integration_id = slice_cstr(id)};
    forget(b);
    int code = openapi_import(&options, &b->result, &b->err);
    b->is_imported = true;
    b->manifest = code == OK ? json_parse(&b->arena, b->result.manifest, &limits, NULL) : NULL;
    return code;
}

static inline void import_with(struct bench *b, const char *document, const char *overrides)
{
    if (run(b, document, overrides, "") != OK)
        print_error("%s\n", b->err.text);
    assert_non_null(b->manifest);
    assert_int_equal(b->result.total, b->result.imported + b->result.skipped);
}

static inline void import(struct bench *b, const char *document)
{
    import_with(b, document, "");
}

/* Compares the value at the pointer with JSON in which ' replaces ". */
static inline void check_at(struct bench *b, const char *pointer, const char *expected, int line)
{
    const struct json *value = json_pointer(b->manifest, slice_cstr(pointer));
    struct err err;
    const struct json *wanted = json_parse(&b->arena, quoted(b, expected), &limits, &err);
    assert_non_null(wanted);
    if (!value || !json_equal(value, wanted)) {
        struct buf text;
        buf_init(&text, 1024 * 1024);
        json_write(&text, value ? value : b->manifest);
        print_error("line %d: %s is %.*s, not %s\n", line, pointer, SLICE_ARG(buf_slice(&text)),
                    expected);
        buf_deinit(&text);
        fail();
    }
}
#define AT(pointer, expected) check_at(b, pointer, expected, __LINE__)
#define INPUT                 "/actions/0/input_schema/"

static inline void check_absent(struct bench *b, const char *pointer, int line)
{
    if (json_pointer(b->manifest, slice_cstr(pointer)))
        print_error("line %d: %s is there\n", line, pointer);
    assert_null(json_pointer(b->manifest, slice_cstr(pointer)));
}
#define ABSENT(pointer) check_absent(b, pointer, __LINE__)

/* Checks that a line of that kind contains the phrase. */
static inline void check_line(struct bench *b, enum import_kind kind, const char *phrase, int line)
{
    for (size_t i = 0; i < b->result.line_count; i++)
        if (b->result.lines[i].kind == kind &&
            slice_find(b->result.lines[i].text, slice_cstr(phrase)) >= 0)
            return;
    print_error("line %d: no line says \"%s\"; there are:\n", line, phrase);
    for (size_t i = 0; i < b->result.line_count; i++)
        print_error("  %s %.*s: %.*s\n", import_kind_name(b->result.lines[i].kind),
                    SLICE_ARG(b->result.lines[i].operation), SLICE_ARG(b->result.lines[i].text));
    fail();
}
#define SAYS(kind, phrase) check_line(b, IMPORT_##kind, phrase, __LINE__)

static inline void check_fault(struct bench *b, const char *document, const char *overrides,
                               int code, const char *phrase, int line)
{
    int got = run(b, document, overrides, "");
    if (got != code || !strstr(b->err.text, phrase))
        print_error("line %d: %d \"%s\"\n", line, got, b->err.text);
    assert_int_equal(got, code);
    assert_non_null(strstr(b->err.text, phrase));
}
#define FAULT(document, code, phrase) check_fault(b, document, "", code, phrase, __LINE__)

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
