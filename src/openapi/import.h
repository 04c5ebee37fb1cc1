/*
 * Converts an OpenAPI 3.0 or 3.1 document (JSON or YAML) to a manifest
 * (contrib/integrations/README.md). Each operation becomes an action, or a line of the report with
 * the reason why it does not. Further lines say which parts of an operation its action cannot do.
 *
 * Overrides are a JSON object with facts that the description lacks:
 *   {"integration": {"name", "description", "category", "tags", "docs_url", "base_url", "headers",
 *                    "connection_params", "auth", "limits", "errors",
 *                    "not_done_statuses": as in a manifest},
 *    "operations": {"<operationId, or METHOD /path>": {"skip", "action_id", "title", "description",
 *                    "tags", "side_effect_level", "requires_confirmation", "idempotent",
 *                    "idempotency_header", "idempotency_member", "scopes", "response", "display":
 * as in a manifest}}}
 *
 * The limits below and those of the linter bound everything. Nothing is fetched: a $ref that leads
 * out of the document's folder is reported.
 */
#ifndef OPENAPI_IMPORT_H
#define OPENAPI_IMPORT_H

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

enum {
    IMPORT_DOCUMENT_BYTES_MAX = 16 * 1024 * 1024,
    IMPORT_OVERRIDES_BYTES_MAX = 1024 * 1024,
    IMPORT_OPERATIONS_MAX = 10000,
    IMPORT_DEPTH_MAX = 200, /* nested containers of the document */
};

/* The folder of the document, for other files that its references name. */
struct import_folder {
    slice name; /* the document's own name in the folder */
    /* Reads a file in the folder or below: path has no "..", and does not begin with a slash.
     * The text is in the arena. If the result is not OK, see err. */
    int (*read)(void *ctx, slice path, struct arena *arena, slice *text, struct err *err);
    void *ctx;
};

struct import_options {
    slice document;
    const struct import_folder *folder; /* NULL: other files are not read */
    slice overrides;                    /* empty: none */
    slice integration_id;               /* empty: made from the title */
};

enum import_kind {
    IMPORT_SKIPPED,  /* the operation is not in the manifest */
    IMPORT_WEAKENED, /* in the manifest, but cannot do everything that was described */
    IMPORT_NOTE,     /* about the document as a whole; operation is empty */
};

struct import_line {
    enum import_kind kind;
    slice operation; /* "GET /users/{id} (getUser)" */
    slice text;      /* reasons, joined by "; " */
};

/* All texts are in the arena. total == imported + skipped; weakened operations count as
 * imported, too. */
struct import_result {
    struct arena arena;
    slice integration_id;
    slice manifest;            /* JSON, indented, at most CATALOG_MANIFEST_BYTES_MAX */
    struct import_line *lines; /* in the document's order; notes where they were made */
    size_t line_count;
    size_t total, imported, skipped, weakened;
};

/* Fills *result, which must be freed with openapi_import_free in any case. The manifest passes
 * `catalog lint`: input schemas have been compiled and examples validated. Returns ERR_SYNTAX or
 * ERR_INVALID if the document or the overrides are wrong (err says how), ERR_NOTFOUND if no
 * operation could be imported (the lines say why), ERR_LIMIT or ERR_NOMEM. */
int openapi_import(const struct import_options *options, struct import_result *result,
                   struct err *err) MUST_CHECK;
void openapi_import_free(struct import_result *result);

const char *import_kind_name(enum import_kind kind);

#endif
