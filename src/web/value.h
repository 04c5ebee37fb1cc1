/*
 * value: JSON as markup: lists of names and values where it is small, its text where it is not.
 */
#ifndef WEB_VALUE_H
#define WEB_VALUE_H

#include "json/json.h"
#include "web/html.h"

enum {
    VALUE_TEXT_BYTES_MAX = 20 * 1024,
    VALUE_ITEMS_MAX = 100,
    VALUE_DEPTH_MAX = 8,
    VALUE_LINES_MAX = 2
};

/* Writes objects as lists of names and arrays as lists; deeper than VALUE_DEPTH_MAX, past
 * VALUE_ITEMS_MAX items or VALUE_TEXT_BYTES_MAX of a text it says what is left out. value NULL:
 * "-". */
void value_write(struct buf *out, const struct json *value);
/* The first text among its members (and theirs) that is a title, a subject, a name or the like;
 * SLICE_NONE when there is none. */
slice value_headline(const struct json *value);
/* The brief form, above the full one: its own short texts except the headline, then the first
 * sentences found further inside. */
void value_write_brief(struct buf *out, const struct json *value, slice headline);
/* A member's name in words: "taskParent" and "task_parent" become "Task parent". */
void value_write_name(struct buf *out, slice name);
/* In <pre>, indented, cut at bytes_max. */
void value_write_text(struct buf *out, const struct json *value, size_t bytes_max);

#endif
