/*
 * Walks over the text of a JSON value without a tree, to find a part of a large stored document. A
 * tree with 16 bytes per value takes up to ten times the text; a scan takes no memory.
 *
 * The text must be valid JSON as written by this room or accepted by its parser. For any other text
 * the results are meaningless, but no byte outside of it is read. Slices are borrowed from the
 * text.
 */
#ifndef JSON_SCAN_H
#define JSON_SCAN_H

#include "json/json.h"

/* Returns the first value in the text, without surrounding white space; SLICE_NONE if there is
 * none. Linear in the length of the value. */
slice json_scan_value(slice text);

/* Returns the type, found from the first byte of the value: JSON_REAL for every number, JSON_NULL
 * for an empty text. */
enum json_type json_scan_type(slice value);

struct json_scan {
    slice rest; /* the text that is not read yet */
    bool is_object;
};

/* Starts before the first item or member of a container; any other value has none. */
void json_scan_open(struct json_scan *scan, slice container);
/* Reads the next item. *key gets its quoted key, SLICE_NONE in an array. Returns false if none is
 * left; both are then unchanged. */
bool json_scan_next(struct json_scan *scan, slice *key, slice *value) MUST_CHECK;

/* The number of items or members; 0 for any other value. */
size_t json_scan_count(slice container);

/* Returns the bytes of a quoted text, unescaped: borrowed if nothing is escaped, else in the arena.
 * SLICE_NONE past the arena's limit, or if it is not a string. */
slice json_scan_str(slice quoted, struct arena *arena);

/* Returns the first member of that name, SLICE_NONE if it is absent, or if object is not an object.
 * (A text that was parsed and written by this room has each name once.) Keys with escapes are
 * unescaped in the arena. */
slice json_scan_get(slice object, slice key, struct arena *arena);
/* Follows a JSON Pointer like json_pointer. Returns SLICE_NONE if it does not lead to a value. */
slice json_scan_pointer(slice root, slice pointer, struct arena *arena);

#endif
