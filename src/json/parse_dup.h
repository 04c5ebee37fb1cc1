/*
 * Finds duplicate keys in an object, at a cost that no hostile object can make quadratic. Owned by
 * parse.c; the table is kept from object to object of one text.
 */
#ifndef JSON_PARSE_DUP_H
#define JSON_PARSE_DUP_H

#include "json/json.h"

struct json_dup_table {
    uint32_t *slots; /* member index + 1; 0 is free */
    size_t cap;      /* power of two, or 0; an object uses the first part of them */
};

void json_dup_init(struct json_dup_table *table);
void json_dup_deinit(struct json_dup_table *table);
/* Folds members of the same key into one, which has the position of the first and the value of
 * the last. Returns OK if all keys differ, ERR_INVALID if some do not (*key is the first
 * duplicate), ERR_NOMEM. */
int json_dup_fold(struct json_dup_table *table, struct json *object, slice *key) MUST_CHECK;

#endif
