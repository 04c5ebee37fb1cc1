/*
 * Any text as an OpenAPI document: it is refused with a message, or becomes a manifest that the
 * linter accepts, with every operation counted. A second run gives the same, and no memory is left
 * allocated.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "openapi/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

static int import(slice document, struct import_result *result)
{
    struct import_options options = {.document = document};
    struct err err = {.code = OK};
    int code = openapi_import(&options, result, &err);
    check(code == OK || slice_cstr(err.text).len > 0);
    /* Without overrides, a manifest that does not load is the importer's fault. */
    check(!slice_starts_with(slice_cstr(err.text), SLICE("the manifest would be faulty")));
    check(result->total == result->imported + result->skipped);
    check(result->line_count >= result->skipped + result->weakened);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct import_result one, other;
    slice document = slice_of(data, size);
    int code = import(document, &one);
    check(import(document, &other) == code);
    if (code == OK)
        check(slice_eq(one.manifest, other.manifest));
    openapi_import_free(&one);
    openapi_import_free(&other);
    check(mem_live_blocks() == 0);
    return 0;
}
