/*
 * A text with [schema, instance, ...]: the schema compiles or is refused with a message, every
 * instance gets an answer, which is the same with and without a report, and no memory is left
 * allocated.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "schema/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

static void check_instance(struct arena *arena, const struct schema *schema,
                           const struct json *instance)
{
    struct schema_report report;
    schema_report_init(&report, arena, SLICE("/input"));
    bool is_valid = schema_validate(schema, instance, NULL);
    check(schema_validate(schema, instance, &report) == is_valid);
    check(is_valid == (report.count == 0) || report.is_cut);
    struct buf out;
    buf_init(&out, (size_t)1024 * 1024);
    schema_report_write(&report, &out);
    schema_report_write_hints(&report, &out);
    check(buf_is_ok(&out) && slice_is_utf8(buf_slice(&out), NULL));
    buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    arena_init(&arena, (size_t)64 * 1024 * 1024);
    struct err err = {0};
    const struct json *root =
        json_parse(&arena, (slice){(const char *)data, size}, &json_limits_provider, &err);
    const struct json *document = json_at(root, 0);
    const struct schema *schema = document ? schema_compile(&arena, document, true, &err) : NULL;
    if (document && !schema)
        check(err.code != OK && err.text[0]);
    for (size_t i = 1; schema && i < root->count && i < 4; i++)
        check_instance(&arena, schema, json_at(root, i));
    arena_deinit(&arena);
    check(mem_live_blocks() == 0);
    return 0;
}
