/*
 * markup: the compiled files of src/web/pages (see README.md there). Each is a flat list of ops:
 * text that is written unchanged, and expressions whose values are escaped for their position,
 * which the compiler has found. No op writes a value unescaped.
 *
 * A set is immutable and shared by all requests. Rendering is bounded: loops run over existing
 * data, uses nest MARKUP_DEPTH_MAX deep, expressions share one budget, and the output buffer has
 * its maximum.
 *
 * A page that shows the rows of one end user (the frame's member "user") keeps to that user: its
 * links, forms and streams name it, by this file alone.
 */
#ifndef WEB_MARKUP_H
#define WEB_MARKUP_H

#include "base/buf.h"
#include "expr/expr.h"

enum {
    MARKUP_DEPTH_MAX = 48, /* nested loops and uses while rendering */
    MARKUP_FILES_MAX = 128,
};

enum markup_kind {
    MARKUP_TEXT,      /* text */
    MARKUP_VALUE,     /* expr, in a form's field or within quotes: returned unchanged by the form */
    MARKUP_VISIBLE,   /* expr, to be read: html_visible */
    MARKUP_URL_PART,  /* expr, percent-encoded */
    MARKUP_ATTRIBUTE, /* an attribute named text; left out if expr is null or false, without a
                       * value if true */
    MARKUP_URL,       /* as MARKUP_ATTRIBUTE; left out unless the value is http, https or a path
                       * of this site */
    MARKUP_BLOCK,     /* data-version: the hash of the content up to `to` */
    MARKUP_IF,        /* jumps to `to` unless expr is true */
    MARKUP_GO,        /* jumps to `to` */
    MARKUP_EACH,      /* the content up to `to`, once for each item of expr */
    MARKUP_USE,       /* renders the file named text with expr as its data */
    MARKUP_SLOT,      /* in the frame: the page or, with a text, its title */
    MARKUP_KEEP,      /* within a URL: text ("?" or "&amp;") and the end user of the page, if any */
    MARKUP_KEEP_FIELD, /* the same, as a field of a form whose query the browser replaces */
    MARKUP_KINDS,
};

struct markup;

struct markup_op {
    uint8_t kind; /* enum markup_kind */
    uint32_t to;
    slice text, source; /* source: the text of expr */
    struct expr *expr;
    const struct markup *used;
};

struct markup {
    slice name;              /* "flow_row" */
    const struct json *data; /* the sample that the file declares */
    struct markup_op *ops;
    uint32_t count, title_to; /* the first title_to ops are a page's title */
};

struct markup_set {
    struct markup *items;
    size_t count;
};

/* Returns whether a path leads to a page that takes the end user whose rows it shows (`?user=ID`),
 * by its first segment. */
bool markup_keeps_user(slice path);
/* Appends a URL. If it leads to such a page, the user is added to its query; SLICE_NONE: no user.
 */
void markup_append_url(struct buf *out, slice url, slice user);
/* Returns whether the attribute's value is text that people read. */
bool markup_is_read(slice attribute);
/* Appends the packed form of a compiled file; data: its sample as JSON text. */
void markup_pack(const struct markup *file, slice data, struct buf *out);
/* Loads a set of packed files into the arena; the pack is borrowed. Returns NULL and sets *err if
 * the pack is broken, or if out of memory. */
const struct markup_set *markup_load(struct arena *arena, slice pack, struct err *err) MUST_CHECK;
const struct markup *markup_find(const struct markup_set *set, slice name);
/* Returns ERR_INVALID and sets *err if the data lacks a member of the sample, has a member that the
 * sample does not have, or has one of another type. A null is accepted everywhere. */
int markup_check(const struct json *sample, const struct json *data, struct err *err) MUST_CHECK;
/* Writes the page in the file "frame", or alone if the set does not have that file. data: an object
 * whose member "frame" is for the frame; its "user" is the end user, if any. Values are allocated
 * in the arena. Returns ERR_* if an expression failed or a limit was reached; the output is then
 * unusable. */
int markup_render(const struct markup_set *set, const struct markup *page, const struct json *data,
                  struct arena *arena, struct buf *out, struct err *err) MUST_CHECK;

#endif
