/*
 * value: JSON for people, as data of a page: lists of names and values if the JSON is small, else
 * its text.
 */
#ifndef WEB_VALUE_H
#define WEB_VALUE_H

#include "json/json.h"

enum {
    VALUE_TEXT_BYTES_MAX = 20 * 1024,
    VALUE_ITEMS_MAX = 100,
    VALUE_DEPTH_MAX = 8,
    VALUE_LINES_MAX = 2
};

/* Writes a member `key` as value.html displays it: {members: [{name, value}], more}, {items, more},
 * {columns, rows: [{cells}], more} for a list of flat objects, {text}, or {json} if nested deeper
 * than VALUE_DEPTH_MAX. Beyond VALUE_ITEMS_MAX items or
 * VALUE_TEXT_BYTES_MAX of a text it says how much is left out. If value is NULL, writes "-". */
void value_view(struct json_writer *w, const char *key, const struct json *value);
/* Returns the first text among the value's members (and their members) that is a title, a subject,
 * a name or the like, or SLICE_NONE if there is none. */
slice value_headline(const struct json *value);
/* Writes the brief form, which precedes the full one, as two members. "brief": the value's own
 * short texts except the headline and the members shown elsewhere, whose names are separated by
 * spaces ([{name, text}], the name in words). "sentences": the first ones found further inside. */
void value_view_brief(struct json_writer *w, const struct json *value, slice headline,
                      slice elsewhere);
/* Writes a member's name in words: "taskParent" and "task_parent" become "Task parent". */
void value_view_name(struct json_writer *w, const char *key, slice name);
/* Writes JSON as indented text, cut at bytes_max. */
void value_view_text(struct json_writer *w, const char *key, const struct json *value,
                     size_t bytes_max);

#endif
