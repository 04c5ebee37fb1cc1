/*
 * markup: the compiled files of src/web/pages (see README.md there). Each is a flat list of ops:
 * text that is written unchanged, and expressions whose values are escaped for their position,
 * found by the compiler. There is no op that writes a value unescaped.
 *
 * A set is immutable and shared by all requests. Rendering is bounded: loops run over existing
 * data, uses nest MARKUP_DEPTH_MAX deep, expressions share one budget, and the output buffer has
 * its maximum.
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
    MARKUP_VALUE,     /* expr, in a form's field or within quotes: sent again unchanged */
    MARKUP_VISIBLE,   /* expr, to be read: html_visible */
    MARKUP_URL_PART,  /* expr, percent-encoded */
    MARKUP_ATTRIBUTE, /* text is the name; left out if expr is null or false, no value if true */
    MARKUP_URL,       /* as ATTRIBUTE; left out unless http, https or a path of this site */
    MARKUP_BLOCK,     /* data-version: the hash of the content up to `to` */
    MARKUP_IF,        /* expr is not true: goes to `to` */
    MARKUP_GO,        /* to */
    MARKUP_EACH,      /* the content up to `to`, once for each item of expr */
    MARKUP_USE,       /* the file named text, over expr */
    MARKUP_SLOT,      /* in the frame: the page; its title with a text */
    MARKUP_KINDS,
};

struct markup;

struct markup_op {
    uint8_t kind; /* enum markup_kind */
    uint32_t to;
    slice text, source; /* source: of expr */
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

/* An attribute whose value is text to be read. */
bool markup_is_read(slice attribute);
/* Appends the packed form of a compiled file; data: its sample as JSON text. */
void markup_pack(const struct markup *file, slice data, struct buf *out);
/* A set of packed files, in the arena; the pack is borrowed. NULL with *err: the pack is broken, or
 * out of memory. */
const struct markup_set *markup_load(struct arena *arena, slice pack, struct err *err) MUST_CHECK;
const struct markup *markup_find(const struct markup_set *set, slice name);
/* ERR_INVALID with *err: the data does not have a member of the sample, has one that the sample
 * does not have, or one of another type. A null is accepted everywhere. */
int markup_check(const struct json *sample, const struct json *data, struct err *err) MUST_CHECK;
/* Writes the page in the file "frame", or alone if there is no such file in the set. data: an
 * object whose member "frame" is the frame's own. Values are made in the arena. ERR_*: an
 * expression failed, or a limit was reached; the output is then unusable. */
int markup_render(const struct markup_set *set, const struct markup *page, const struct json *data,
                  struct arena *arena, struct buf *out, struct err *err) MUST_CHECK;

#endif
