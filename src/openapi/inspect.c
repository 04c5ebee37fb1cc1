/*
 * Questions about a schema as it is in the document: whether it may be null, an array or a file,
 * and whether it has a sample value. The answers are approximate; each caller errs on the side that
 * loses less.
 */
#include "openapi/internal.h"

enum { TYPE_DEPTH_MAX = 4 };

static bool has_type(const struct json *schema, const char *type)
{
    const struct json *value = JSON_GET(schema, "type");
    return json_has_text(value, slice_cstr(type)) || slice_eq_cstr(json_str(value), type);
}

/* depth limits branches that refer to themselves; beyond four levels the answer is no. */
static bool may_be(struct import *im, const struct json *schema, const char *type, unsigned depth)
{
    static const char *const branches[] = {"anyOf", "oneOf", "allOf"};
    schema = import_resolve(im, schema);
    if (has_type(schema, type))
        return true;
    for (size_t i = 0; depth > 0 && i < ARRAY_LEN(branches); i++) {
        const struct json *list = json_get(schema, slice_cstr(branches[i]));
        for (uint32_t j = 0; json_is(list, JSON_ARRAY) && j < list->count; j++)
            if (may_be(im, &list->as.items[j], type, depth - 1))
                return true;
    }
    return false;
}

bool import_schema_may_be(struct import *im, const struct json *schema, const char *type)
{
    return may_be(im, schema, type, TYPE_DEPTH_MAX);
}

bool import_schema_is_nullable(struct import *im, const struct json *schema)
{
    const struct json *target = import_resolve(im, schema);
    /* 3.0 says nullable; 3.1 has the type "null". */
    if (im->is_30)
        return json_get_bool(target, SLICE("nullable"), false);
    return import_schema_may_be(im, schema, "null");
}

bool import_schema_is_read_only(struct import *im, const struct json *schema)
{
    return json_get_bool(import_resolve(im, schema), SLICE("readOnly"), false);
}

const struct json *import_schema_sample(struct import *im, const struct json *schema)
{
    schema = import_resolve(im, schema);
    /* Ordered from values that the author chose as typical to values that are merely valid. */
    const struct json *example = JSON_GET(schema, "example");
    const struct json *examples = JSON_GET(schema, "examples");
    if (!example)
        example = json_at(examples, 0);
    if (!example)
        example = JSON_GET(schema, "default");
    if (!example)
        example = JSON_GET(schema, "const");
    return example ? example : json_at(JSON_GET(schema, "enum"), 0);
}
