/*
 * schema_meta: the assertions of the specification's meta-schemas, one document per identifier
 * (JSON Schema 2020-12 Core 8, Validation 2). Titles, defaults, comments and dialects are omitted.
 * The meta-schemas are compiled in: a validator that fetched them would depend on a third party's
 * server at startup.
 */
#include "schema/meta.h"

#define BASE "https://json-schema.org/draft/2020-12/"

static const char meta_schema[] =
    "{\"$id\":\"" BASE "schema\","
    "\"$dynamicAnchor\":\"meta\",\"type\":[\"object\",\"boolean\"],\"allOf\":[{"
    "\"$ref\":\"meta/core\"},{\"$ref\":\"meta/applicator\"},{\"$ref\":\"meta/unevaluated\"}"
    ",{\"$ref\":\"meta/validation\"},{\"$ref\":\"meta/meta-data\"},{"
    "\"$ref\":\"meta/format-annotation\"},{\"$ref\":\"meta/content\"}],\"properties\":{"
    "\"definitions\":{\"type\":\"object\",\"additionalProperties\":{"
    "\"$dynamicRef\":\"#meta\"}},\"dependencies\":{\"type\":\"object\","
    "\"additionalProperties\":{\"anyOf\":[{\"$dynamicRef\":\"#meta\"},{"
    "\"$ref\":\"meta/validation#/$defs/stringArray\"}]}},\"$recursiveAnchor\":{"
    "\"$ref\":\"meta/core#/$defs/anchorString\"},\"$recursiveRef\":{"
    "\"$ref\":\"meta/core#/$defs/uriReferenceString\"}}}";

static const char meta_core[] =
    "{\"$id\":\"" BASE "meta/core\","
    "\"$dynamicAnchor\":\"meta\",\"type\":[\"object\",\"boolean\"],\"properties\":{"
    "\"$id\":{\"$ref\":\"#/$defs/uriReferenceString\",\"pattern\":\"^[^#]*#?$\"},"
    "\"$schema\":{\"$ref\":\"#/$defs/uriString\"},\"$ref\":{"
    "\"$ref\":\"#/$defs/uriReferenceString\"},\"$anchor\":{"
    "\"$ref\":\"#/$defs/anchorString\"},\"$dynamicRef\":{"
    "\"$ref\":\"#/$defs/uriReferenceString\"},\"$dynamicAnchor\":{"
    "\"$ref\":\"#/$defs/anchorString\"},\"$vocabulary\":{\"type\":\"object\","
    "\"propertyNames\":{\"$ref\":\"#/$defs/uriString\"},\"additionalProperties\":{"
    "\"type\":\"boolean\"}},\"$comment\":{\"type\":\"string\"},\"$defs\":{"
    "\"type\":\"object\",\"additionalProperties\":{\"$dynamicRef\":\"#meta\"}}},\"$defs\":{"
    "\"anchorString\":{\"type\":\"string\",\"pattern\":\"^[A-Za-z_][-A-Za-z0-9._]*$\"},"
    "\"uriString\":{\"type\":\"string\",\"format\":\"uri\"},\"uriReferenceString\":{"
    "\"type\":\"string\",\"format\":\"uri-reference\"}}}";

static const char meta_applicator[] =
    "{\"$id\":\"" BASE "meta/applicator\","
    "\"$dynamicAnchor\":\"meta\",\"type\":[\"object\",\"boolean\"],\"properties\":{"
    "\"prefixItems\":{\"$ref\":\"#/$defs/schemaArray\"},\"items\":{"
    "\"$dynamicRef\":\"#meta\"},\"contains\":{\"$dynamicRef\":\"#meta\"},"
    "\"additionalProperties\":{\"$dynamicRef\":\"#meta\"},\"properties\":{"
    "\"type\":\"object\",\"additionalProperties\":{\"$dynamicRef\":\"#meta\"}},"
    "\"patternProperties\":{\"type\":\"object\",\"additionalProperties\":{"
    "\"$dynamicRef\":\"#meta\"},\"propertyNames\":{\"format\":\"regex\"}},"
    "\"dependentSchemas\":{\"type\":\"object\",\"additionalProperties\":{"
    "\"$dynamicRef\":\"#meta\"}},\"propertyNames\":{\"$dynamicRef\":\"#meta\"},\"if\":{"
    "\"$dynamicRef\":\"#meta\"},\"then\":{\"$dynamicRef\":\"#meta\"},\"else\":{"
    "\"$dynamicRef\":\"#meta\"},\"allOf\":{\"$ref\":\"#/$defs/schemaArray\"},\"anyOf\":{"
    "\"$ref\":\"#/$defs/schemaArray\"},\"oneOf\":{\"$ref\":\"#/$defs/schemaArray\"},"
    "\"not\":{\"$dynamicRef\":\"#meta\"}},\"$defs\":{\"schemaArray\":{\"type\":\"array\","
    "\"minItems\":1,\"items\":{\"$dynamicRef\":\"#meta\"}}}}";

static const char meta_unevaluated[] =
    "{\"$id\":\"" BASE "meta/unevaluated\","
    "\"$dynamicAnchor\":\"meta\",\"type\":[\"object\",\"boolean\"],\"properties\":{"
    "\"unevaluatedItems\":{\"$dynamicRef\":\"#meta\"},\"unevaluatedProperties\":{"
    "\"$dynamicRef\":\"#meta\"}}}";

static const char meta_validation[] =
    "{\"$id\":\"" BASE "meta/validation\","
    "\"$dynamicAnchor\":\"meta\",\"type\":[\"object\",\"boolean\"],\"properties\":{"
    "\"type\":{\"anyOf\":[{\"$ref\":\"#/$defs/simpleTypes\"},{\"type\":\"array\","
    "\"items\":{\"$ref\":\"#/$defs/simpleTypes\"},\"minItems\":1,\"uniqueItems\":true}]},"
    "\"const\":true,\"enum\":{\"type\":\"array\",\"items\":true},\"multipleOf\":{"
    "\"type\":\"number\",\"exclusiveMinimum\":0},\"maximum\":{\"type\":\"number\"},"
    "\"exclusiveMaximum\":{\"type\":\"number\"},\"minimum\":{\"type\":\"number\"},"
    "\"exclusiveMinimum\":{\"type\":\"number\"},\"maxLength\":{"
    "\"$ref\":\"#/$defs/nonNegativeInteger\"},\"minLength\":{"
    "\"$ref\":\"#/$defs/nonNegativeInteger\"},\"pattern\":{\"type\":\"string\","
    "\"format\":\"regex\"},\"maxItems\":{\"$ref\":\"#/$defs/nonNegativeInteger\"},"
    "\"minItems\":{\"$ref\":\"#/$defs/nonNegativeInteger\"},\"uniqueItems\":{"
    "\"type\":\"boolean\"},\"maxContains\":{\"$ref\":\"#/$defs/nonNegativeInteger\"},"
    "\"minContains\":{\"$ref\":\"#/$defs/nonNegativeInteger\"},\"maxProperties\":{"
    "\"$ref\":\"#/$defs/nonNegativeInteger\"},\"minProperties\":{"
    "\"$ref\":\"#/$defs/nonNegativeInteger\"},\"required\":{"
    "\"$ref\":\"#/$defs/stringArray\"},\"dependentRequired\":{\"type\":\"object\","
    "\"additionalProperties\":{\"$ref\":\"#/$defs/stringArray\"}}},\"$defs\":{"
    "\"nonNegativeInteger\":{\"type\":\"integer\",\"minimum\":0},\"simpleTypes\":{"
    "\"enum\":[\"array\",\"boolean\",\"integer\",\"null\",\"number\",\"object\",\"string\"]"
    "},\"stringArray\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},"
    "\"uniqueItems\":true}}}";

static const char meta_meta_data[] =
    "{\"$id\":\"" BASE "meta/meta-data\","
    "\"$dynamicAnchor\":\"meta\",\"type\":[\"object\",\"boolean\"],\"properties\":{"
    "\"title\":{\"type\":\"string\"},\"description\":{\"type\":\"string\"},"
    "\"default\":true,\"deprecated\":{\"type\":\"boolean\"},\"readOnly\":{"
    "\"type\":\"boolean\"},\"writeOnly\":{\"type\":\"boolean\"},\"examples\":{"
    "\"type\":\"array\",\"items\":true}}}";

static const char meta_format_annotation[] =
    "{\"$id\":\"" BASE "meta/format-annotation\","
    "\"$dynamicAnchor\":\"meta\",\"type\":[\"object\",\"boolean\"],\"properties\":{"
    "\"format\":{\"type\":\"string\"}}}";

static const char meta_format_assertion[] =
    "{\"$id\":\"" BASE "meta/format-assertion\","
    "\"$dynamicAnchor\":\"meta\",\"type\":[\"object\",\"boolean\"],\"properties\":{"
    "\"format\":{\"type\":\"string\"}}}";

static const char meta_content[] =
    "{\"$id\":\"" BASE "meta/content\","
    "\"$dynamicAnchor\":\"meta\",\"type\":[\"object\",\"boolean\"],\"properties\":{"
    "\"contentEncoding\":{\"type\":\"string\"},\"contentMediaType\":{\"type\":\"string\"},"
    "\"contentSchema\":{\"$dynamicRef\":\"#meta\"}}}";

slice schema_meta_find(slice uri)
{
    static const struct {
        slice uri;
        const char *text;
    } documents[] = {
        {SLICE_INIT(BASE "schema"), meta_schema},
        {SLICE_INIT(BASE "meta/core"), meta_core},
        {SLICE_INIT(BASE "meta/applicator"), meta_applicator},
        {SLICE_INIT(BASE "meta/unevaluated"), meta_unevaluated},
        {SLICE_INIT(BASE "meta/validation"), meta_validation},
        {SLICE_INIT(BASE "meta/meta-data"), meta_meta_data},
        {SLICE_INIT(BASE "meta/format-annotation"), meta_format_annotation},
        {SLICE_INIT(BASE "meta/format-assertion"), meta_format_assertion},
        {SLICE_INIT(BASE "meta/content"), meta_content},
    };
    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        if (slice_eq(documents[i].uri, uri))
            return slice_cstr(documents[i].text);
    }
    return SLICE_NONE;
}
