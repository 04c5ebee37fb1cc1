/*
 * Shared by the tests of JSON: parsing of literals and of whole files.
 */
#ifndef TEST_JSON_JSON_TEST_H
#define TEST_JSON_JSON_TEST_H

#include <stdlib.h>

#include "json/json.h"
#include "unit.h"

/* The literal's value. Fails the test if it does not parse. */
static inline struct json *parse(struct arena *arena, const char *text)
{
    struct err err = {0};
    struct json *value = json_parse(arena, slice_cstr(text), &json_limits_provider, &err);
    if (!value)
        fail_msg("%s: %s", text, err.text);
    return value;
}

/* Parses a text with ' in place of ". */
static inline struct json *parse_quoted(struct arena *arena, const char *text)
{
    return parse(arena, unit_quoted(arena, text));
}

/* The file's bytes in the arena, or SLICE_NONE if it cannot be read. */
static inline slice read_file(struct arena *arena, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return SLICE_NONE;
    char *text = NULL;
    long len = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (len >= 0 && fseek(file, 0, SEEK_SET) == 0)
        text = arena_alloc_text(arena, (size_t)len + 1);
    if (text && fread(text, 1, (size_t)len, file) != (size_t)len)
        text = NULL;
    (void)fclose(file);
    return text ? (slice){text, (size_t)len} : SLICE_NONE;
}

/* $SLUICE_CORPORA or its default, followed by a path. */
static inline const char *corpus_path(struct arena *arena, const char *path)
{
    const char *root = getenv("SLUICE_CORPORA");
    return arena_printf(arena, "%s/%s", root ? root : "../shared/corpora", path).ptr;
}

#endif
