/*
 * A walk over the text of a JSON value without a tree: for a part of a large stored document. A
 * tree with 16 bytes per value takes up to ten times the text; a scan takes no memory.
 *
 * The text must be valid JSON, as the parser or the writer of this room produce it. For any other
 * text the results are meaningless, but no byte outside of it is read. Slices are borrowed from the
 * text.
 */
#ifndef JSON_SCAN_H
#define JSON_SCAN_H

#include "json/json.h"

/* The first value of the text, without what surrounds it; SLICE_NONE if there is none. Linear in
 * the value. */
slice json_scan_value(slice text);

/* By the first byte of a value. Every number is JSON_REAL. JSON_NULL for an empty text. */
enum json_type json_scan_type(slice value);

struct json_scan {
    slice rest; /* after what was read */
    bool is_object;
};

/* Begins before the first item or member of a container; any other value has none. */
void json_scan_open(struct json_scan *scan, slice container);
/* The next item. key: its quoted text, SLICE_NONE in an array. false: none is left, and both are
 * unchanged. */
bool json_scan_next(struct json_scan *scan, slice *key, slice *value) MUST_CHECK;

/* Items or members; 0 for any other value. */
size_t json_scan_count(slice container);

/* The bytes of a quoted text, unescaped: borrowed if nothing is escaped, else in the arena.
 * SLICE_NONE past the arena's limit, or if it is not a string. */
slice json_scan_str(slice quoted, struct arena *arena);

/* The first member of that name, SLICE_NONE if absent, or if object is not an object. (A text that
 * was parsed and written by this room has each name once.) The arena takes keys with escapes. */
slice json_scan_get(slice object, slice key, struct arena *arena);
/* RFC 6901, as json_pointer. SLICE_NONE if it leads to no value. */
slice json_scan_pointer(slice root, slice pointer, struct arena *arena);

#endif
