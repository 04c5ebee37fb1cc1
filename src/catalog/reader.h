/*
 * Reads a manifest by type: each getter reports faults with their JSON Pointer and continues, so
 * that one pass finds every fault. It is used for the catalog and for flow templates, which have
 * the same form.
 */
#ifndef CATALOG_READER_H
#define CATALOG_READER_H

#include "catalog/catalog.h"

/* A position in the manifest; a chain on the C stack, rendered only for a message. */
struct reader_path {
    const struct reader_path *parent;
    slice name;      /* empty: the position is only an item of an array */
    ptrdiff_t index; /* >= 0: index of an item of the array `name` */
};

/* One object of a manifest. Each member that a getter reads is marked as known; reader_finish
 * reports the others. */
struct reader {
    struct catalog_report *report;
    struct arena *arena; /* the arena of the catalog */
    slice source;
    slice about; /* the beginning of every message: the id of an action; may be empty */
    const struct json *object;
    struct reader_path *path;
    struct reader_path entered; /* the path after reader_enter */
    const char *known[40];
    size_t known_count;
};

/* Reads the member as an object. Returns false if the member is absent, or if it is not an object,
 * which is reported. */
bool reader_enter(struct reader *r, struct reader *parent, const char *name);
/* Reads `object`, which is at `path`. Reports and returns false if it is not an object. */
bool reader_init(struct reader *r, const struct reader *parent, struct reader_path *path,
                 const struct json *object);
/* Reports unknown members, with the nearest known name. */
void reader_finish(struct reader *r);

/* Returns the member, NULL if it is absent; marks it as known. */
const struct json *reader_member(struct reader *r, const char *name);
/* Getters: a missing member gives the default; a wrong type is reported and gives the default,
 * too. The _required getters report missing and empty members. */
slice reader_text(struct reader *r, const char *name);
slice reader_text_required(struct reader *r, const char *name);
bool reader_bool(struct reader *r, const char *name, bool fallback);
uint64_t reader_count(struct reader *r, const char *name, uint64_t max);
double reader_number(struct reader *r, const char *name, double max);
/* Returns the index of the member's value in `names` (NULL ends the list), or fallback. */
int reader_choice(struct reader *r, const char *name, const char *const *names, int fallback);
/* Returns an array whose items are all strings, NULL if it is absent. */
const struct json *reader_texts(struct reader *r, const char *name);
/* Returns NULL if the expression is absent or faulty. */
const struct expr *reader_expr(struct reader *r, const char *name);
const struct expr_template *reader_template(struct reader *r, const char *name);
/* Reads an object of templates: {"q": "${input.query}"}. */
struct catalog_pairs reader_pairs(struct reader *r, const char *name);
/* Compiles a JSON Schema and sets *document to its JSON, or to NULL if it is absent or null. */
const struct schema *reader_schema(struct reader *r, const char *name,
                                   const struct json **document);

/* Whether text is [a-z][a-z0-9_]* and at most max bytes. */
bool reader_is_id(slice text, size_t max);
/* name is the faulty member, or a JSON Pointer from here without its first slash; NULL means the
 * object itself. */
void reader_error(const struct reader *r, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);
void reader_warning(const struct reader *r, const char *name, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

#endif
