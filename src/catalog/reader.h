/*
 * Typed reading of a manifest: each getter reports what is wrong with its JSON Pointer and goes on,
 * so that one pass finds every fault. For the catalog, and for flow templates, which are data of
 * the same kind.
 */
#ifndef CATALOG_READER_H
#define CATALOG_READER_H

#include "catalog/catalog.h"

/* A place in the manifest; a chain on the C stack, rendered only when there is something to say. */
struct reader_path {
    const struct reader_path *parent;
    slice name;      /* empty: of an item only */
    ptrdiff_t index; /* >= 0: of what is called so the item */
};

/* One object of a manifest. Each member that a getter asks for is marked as known;
 * reader_finish reports those that were not read. */
struct reader {
    struct catalog_report *report;
    struct arena *arena; /* of the catalog */
    slice source;
    slice about; /* what every text begins with: an action's id; or empty */
    const struct json *object;
    struct reader_path *path;
    struct reader_path entered; /* what path is after reader_enter */
    const char *known[40];
    size_t known_count;
};

/* Reads the object that is the member. Reports and returns false when it is no object; false also
 * where there is none. */
bool reader_enter(struct reader *r, struct reader *parent, const char *name);
/* Reads `object`, which stands at `path`. Reports and returns false when it is no object. */
bool reader_init(struct reader *r, const struct reader *parent, struct reader_path *path,
                 const struct json *object);
/* Reports unknown members, with the nearest known name. */
void reader_finish(struct reader *r);

/* The member, NULL when absent; marks it as known. */
const struct json *reader_member(struct reader *r, const char *name);
/* Getters: absent gives the default; a wrong type is reported and gives the default, too. The
 * _required ones report absence and emptiness. */
slice reader_text(struct reader *r, const char *name);
slice reader_text_required(struct reader *r, const char *name);
bool reader_bool(struct reader *r, const char *name, bool fallback);
uint64_t reader_count(struct reader *r, const char *name, uint64_t max);
double reader_number(struct reader *r, const char *name, double max);
/* One of `names` (NULL ends the list): its index, or otherwise. */
int reader_choice(struct reader *r, const char *name, const char *const *names, int fallback);
/* An array whose items are all strings, NULL when absent. */
const struct json *reader_texts(struct reader *r, const char *name);
/* NULL when absent or faulty. */
const struct expr *reader_expr(struct reader *r, const char *name);
const struct expr_template *reader_template(struct reader *r, const char *name);
/* An object of templates: {"q": "${input.query}"}. */
struct catalog_parts reader_parts(struct reader *r, const char *name);
/* A JSON Schema, compiled; *document gets its JSON (NULL when absent or null). */
const struct schema *reader_schema(struct reader *r, const char *name,
                                   const struct json **document);

/* [a-z][a-z0-9_]*, at most max bytes. */
bool reader_is_id(slice text, size_t max);
/* name: the member at fault, or a JSON Pointer from here without its first slash; NULL: the object.
 */
void reader_error(const struct reader *r, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);
void reader_warning(const struct reader *r, const char *name, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

#endif
