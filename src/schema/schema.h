/*
 * JSON Schema 2020-12. A schema is compiled once, when a manifest, template or catalog loads, into
 * a program in the caller's arena. Validating a valid instance does not allocate, with exceptions
 * that use one block each and free it: uniqueItems on more than SCHEMA_UNIQUE_STACK items,
 * unevaluated* on more than about 100,000 members, a pattern that backtracks very far. A program is
 * immutable: any number of threads may validate with it concurrently.
 *
 * Work is limited: every validation has SCHEMA_FUEL steps, shared by keywords, comparisons and
 * patterns; a hostile schema, pattern or instance ends as a violation of keyword "limit". Patterns
 * are ECMA-262 in Unicode mode, run by PCRE2 with the same fuel.
 */
#ifndef SCHEMA_SCHEMA_H
#define SCHEMA_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "json/json.h"

enum {
    SCHEMA_VIOLATIONS_MAX = 20,
    SCHEMA_NODES_MAX = 100000, /* subschemas of one program, including those of the meta-schema */
    SCHEMA_DEPTH_MAX = 2048,   /* nested subschemas while validating */
    SCHEMA_PATTERN_BYTES_MAX = 8192,
    SCHEMA_UNIQUE_STACK = 256,
    /* steps of one to three nanoseconds each, in a release build */
    SCHEMA_FUEL = 10 * 1000 * 1000,
    SCHEMA_REPORT_FUEL = 4 * 1000 * 1000, /* additional steps to find all violations */
};

struct schema;

/* Compiles. `document` is borrowed: it must live as long as the program, which lives in the arena
 * (nothing else to free). References lead into the document itself, to its resources with an $id,
 * and to the meta-schemas of 2020-12; nothing is fetched. Any $schema is read as 2020-12. `format`
 * asserts if assert_formats is set and otherwise is an annotation (Validation 7.2.1); unknown
 * formats pass. Returns NULL on ERR_INVALID (a keyword has a wrong value; err names the location,
 * e.g. `schema #/properties/to/minLength: must be a non-negative integer`), ERR_SYNTAX (pattern),
 * ERR_NOTFOUND (the target of a $ref does not exist), ERR_LIMIT, ERR_NOMEM. */
struct schema *schema_compile(struct arena *arena, const struct json *document, bool assert_formats,
                              struct err *err) MUST_CHECK;

/* One violation. All texts are in the report's arena or in the schema. */
struct schema_violation {
    slice pointer;  /* JSON Pointer of the value, after report->prefix: "/input/maxResults" */
    slice keyword;  /* "maximum"; "limit" if the validation itself was stopped early */
    slice location; /* the location of the keyword: "#/properties/maxResults/maximum", with the
                     * document's URI before the # unless it is the root document */
    slice message;  /* "must be at most 20 (got 50)"; can follow "pointer: " */
    slice hint;     /* how to fix it: `rename "maxresult" to "maxResults"`; SLICE_NONE if unclear */
    uint8_t types;  /* if the value has a wrong type: the allowed types (private to schema) */
};

struct schema_report {
    struct arena *arena;
    slice prefix; /* put before every pointer: "/input", or empty */
    struct schema_violation violations[SCHEMA_VIOLATIONS_MAX];
    size_t count;
    bool is_cut; /* there were more than SCHEMA_VIOLATIONS_MAX, or the arena is full */
};

/* prefix is borrowed. */
void schema_report_init(struct schema_report *report, struct arena *arena, slice prefix);

/* Whether the instance is valid. With a report, continues after the first violation and adds all
 * violations found; without a report (NULL) it is faster. Instances nested deeper than
 * SCHEMA_DEPTH_MAX are invalid. */
bool schema_validate(const struct schema *schema, const struct json *instance,
                     struct schema_report *report) MUST_CHECK;

/* Returns the instance without the members whose null means absent: members that `properties`
 * names, that are not required and whose schemas, including alternatives, all refuse null. Does not
 * change the instance, whose parts the result shares; new parts are in the arena. If out of memory,
 * or if it takes too many steps, returns the instance unchanged. */
const struct json *schema_drop_nulls(const struct schema *schema, const struct json *instance,
                                     struct arena *arena);

/* The places that schema_mend changed, as JSON Pointers in its arena. */
struct schema_slips {
    slice pointers[SCHEMA_VIOLATIONS_MAX];
    size_t count;
};

/* Returns the instance with the slips of a model mended, each where the schema accepts nothing
 * else: a text becomes the only item of a list, the number that it spells, or the object or list
 * whose JSON it is. Everything else that is wrong stays as it is. depth: how many containers are
 * around the instance in its document; with them, nothing nests deeper than a request may. Does not
 * change the instance, whose parts the result shares; new parts are in the arena. Without slips, or
 * if out of memory, returns the instance itself. */
const struct json *schema_mend(const struct schema *schema, const struct json *instance,
                               size_t depth, struct arena *arena, struct schema_slips *slips);

/* Writes "pointer: message" of all violations, joined by "; ". The empty pointer is written as
 * the caller's prefix (for example "input"), or as "(root)" if that is empty, too. */
void schema_report_write(const struct schema_report *report, struct buf *out);
/* Writes the hints, joined by "; "; nothing if there are none. */
void schema_report_write_hints(const struct schema_report *report, struct buf *out);

#endif
