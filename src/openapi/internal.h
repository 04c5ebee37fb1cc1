/*
 * Declarations that the files of the importer share: import.c (the document and the manifest),
 * operation.c (one operation), parameter.c and body.c (its input and request), response.c, schema.c
 * and inspect.c (schemas), ref.c (references), file.c (other files), security.c, server.c, text.c
 * (ids and words). Private to the room.
 */
#ifndef OPENAPI_INTERNAL_H
#define OPENAPI_INTERNAL_H

#include "base/map.h"
#include "catalog/catalog.h"
#include "openapi/import.h"

enum {
    IMPORT_PROPERTIES_MAX = 200, /* inputs of an action */
    IMPORT_NAME_MAX = 64,        /* bytes of an input's name: the limit of model vendors */
    IMPORT_REF_HOPS_MAX = 16,    /* hops of a $ref that leads to another $ref */
    IMPORT_PREFIX_MAX = 40,
};

/* The name in `$defs` of a schema that allows any value; added when needed. */
#define IMPORT_ANY_NAME "any_json"

/* The target of a $ref. Schemas there become `$defs` of the action that needs them. */
struct import_ref {
    const struct json *target; /* NULL: dangling */
    slice name;                /* name in $defs; unique in the document; made when first needed */
    uint64_t used_by;          /* the last conversion that queued it */
    struct import_ref *next;   /* next in the queue of that conversion */
};

/* Another file of the description. */
struct import_file {
    const struct json *root; /* NULL: it could not be read */
};

struct import {
    struct arena *arena; /* arena of the result: everything is allocated there */
    struct import_result *result;
    const struct json *document;
    const struct json *integration, *operations; /* members of the overrides, may be NULL */
    bool is_30;                                  /* OpenAPI 3.0, which has its own dialect of
                                                  * JSON Schema */
    slice prefix;
    const struct import_folder *folder; /* may be NULL */
    struct map files;                   /* struct import_file, by path from the folder */
    struct map refs;                    /* text of a $ref -> struct import_ref */
    struct map def_names;               /* name in $defs -> itself */
    struct map ids;                     /* action_id -> itself */
    struct map overridden;              /* keys of `operations` for which the document has an
                                         * operation */
    uint64_t conversions;
    size_t lines_cap;
    /* server.c, security.c */
    slice server_url;            /* URL of the document's server, verbatim, without a trailing
                                  * slash */
    slice scheme_name;           /* the chosen security scheme; empty: none */
    const struct json *security; /* the document's own requirements, may be NULL */
    struct json base_url, connection_params, auth, scope_words;
};

/* One input property of the action being made. */
struct import_input {
    slice name;                 /* name in the input */
    slice wire;                 /* name in the request */
    bool is_required;           /* the caller must supply it */
    bool is_nullable;           /* a null is meaningful to the provider */
    const struct json *schema;  /* as described, for examples; may be NULL */
    const struct json *example; /* may be NULL */
};

struct import_op {
    struct import *im;
    const struct json *node, *path_item, *override;
    slice method, path, operation_id, label;
    bool is_skipped;
    slice reasons; /* joined by "; " */
    /* input_schema, under construction */
    struct import_input inputs[IMPORT_PROPERTIES_MAX];
    size_t input_count;
    struct json properties, required;
    struct import_schema *schemas;
    /* request, under construction */
    struct json query, headers, body;
    slice path_template;
    bool is_deep; /* objects in the query are written as name[key]= */
    bool is_open; /* the body may have members that the document does not describe */
    slice accept; /* a type of JSON that replies have; empty: application/json */
    slice idempotency_header;
};

/* Adds a member to an object of the manifest. name must be a literal. */
void import_set(struct import *im, struct json *object, const char *name, struct json value);
/* import_set with a text; an empty text adds nothing. */
void import_set_text(struct import *im, struct json *object, const char *name, slice text);

/* ---- the report: import.c ---- */

void import_line_add(struct import *im, enum import_kind kind, slice operation, slice text);
void import_note(struct import *im, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Whether the path has a query or a fragment, after which no path can follow. */
bool import_has_query(slice path);
/* Marks the operation as skipped, with this reason only; the first reason counts. */
void import_skip(struct import_op *op, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Reports that the action can do less than the operation; repeated reasons are dropped. */
void import_weaken(struct import_op *op, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Records that memory ran out: the import fails at its end, instead of losing data silently. */
static inline void import_starve(struct import *im)
{
    im->arena->is_exhausted = true;
}

/* ---- references ---- */

/* Finds the reference for a `$ref` text; returns NULL if out of memory. Its target is NULL if it is
 * not in this document or its folder. */
struct import_ref *import_ref_find(struct import *im, slice text) MUST_CHECK;
/* Returns value, or the end of its chain of $ref; NULL if that does not exist. */
const struct json *import_resolve(struct import *im, const struct json *value);

/* ---- other files ---- */

/* JSON, otherwise YAML. */
struct json *import_parse(struct arena *arena, slice text, struct err *err) MUST_CHECK;
/* Returns the document that a $ref names before its '#' (empty: the imported document). Returns
 * NULL if its folder does not have it, or if it could not be read, which a note reports. */
const struct json *import_file_root(struct import *im, slice reference);

/* ---- schemas ---- */

/* One conversion into 2020-12: schemas of one action's input, or of its output, whose references
 * share one `$defs`. */
struct import_schema {
    struct import *im;
    struct import_op *op; /* gets reports of what is lost; NULL: not reported */
    bool is_request;      /* leave out readOnly, otherwise writeOnly */
    bool has_any;         /* the items of some array may have any type */
    bool is_over;         /* more than nodes_max subschemas: the result is unusable */
    unsigned nodes, nodes_max;
    uint64_t id;
    struct import_ref *first, **end; /* to be put into $defs */
};

void import_schema_begin(struct import_schema *schemas, struct import *im, struct import_op *op,
                         bool is_request, unsigned nodes_max);
/* Returns the schema in 2020-12, with references as "#/$defs/name". */
struct json import_schema_convert(struct import_schema *schemas, const struct json *schema);
/* Adds `$defs` to root when there are any. */
void import_schema_finish(struct import_schema *schemas, struct json *root);
/* Whether null is among the values of the schema. */
bool import_schema_is_nullable(struct import *im, const struct json *schema);
/* Whether some branch of the schema has that type; a schema without types may have any, except
 * the schema `false`. */
bool import_schema_may_be(struct import *im, const struct json *schema, const char *type);
/* Whether the schema is readOnly, and so left out of requests. */
bool import_schema_is_read_only(struct import *im, const struct json *schema);
/* Returns a value that the description itself shows: example, examples, default, const, enum.
 * Returns NULL if there is none. */
const struct json *import_schema_sample(struct import *im, const struct json *schema);
/* Whether the value nests at most `depth` containers. */
bool import_is_shallow(const struct json *value, unsigned depth);
/* Whether the value's text has at most about that many bytes (escapes do not count). Allocates
 * nothing. */
bool import_is_small(const struct json *value, size_t bytes_max);

/* ---- one operation ---- */

void import_operation(struct import *im, const struct json *path_item, slice path, slice method,
                      const struct json *node, struct json *actions);
/* Adds an input. location ("query", "body") is put before a name that is already in use. Returns
 * NULL if there are too many; the operation is then skipped. */
struct import_input *import_input_add(struct import_op *op, const char *location, slice wire,
                                      const struct json *schema, slice description,
                                      bool is_required);
/* Returns input.name as JMESPath, for example input."a-b". */
slice import_input_path(struct import_op *op, const struct import_input *input);
/* Returns the expression of import_input_path as a template: ${input.name}. */
struct json import_input_template(struct import_op *op, const struct import_input *input);
/* Whether text can be a member's name in a template. */
bool import_is_plain(slice text);

void import_parameters(struct import_op *op);
/* Returns the action's `response`, as far as the document describes it. */
struct json import_response(struct import_op *op, bool is_write);
void import_body(struct import_op *op);

/* ---- the document ---- */

int import_servers(struct import *im, struct err *err) MUST_CHECK;
/* Returns the path prefix of the operation's own servers; skips the operation if they are on
 * another host. */
slice import_server_prefix(struct import_op *op);
void import_security(struct import *im);
/* Returns the scopes of the operation, any one of which suffices; reports requirements that the
 * credential does not meet. */
struct json import_scopes(struct import_op *op);

/* ---- words ---- */

/* Converts any text to [a-z][a-z0-9_]*: "listPets" becomes list_pets. The result is empty if the
 * text has no letter or digit. */
slice import_slug(struct import *im, slice text);
/* Returns an integration's id of at most `max` bytes, made from the words of a title without those
 * such as "API": "GitHub REST API v3" becomes github. The id is empty if nothing is left. */
slice import_title_id(struct import *im, slice title, size_t max);
/* Returns the action's id: unique, the same in every run, and short enough for a tool name with the
 * prefix. */
slice import_action_id(struct import_op *op);
/* Shortens the text to at most `max` bytes, cut at a word and followed by "..."; control
 * characters except \n and \t are dropped. */
slice import_clip(struct import *im, slice text, size_t max);
/* Escapes the text for a template, so that ${ is not a placeholder. */
slice import_literal(struct import *im, slice text);

#endif
