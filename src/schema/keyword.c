/*
 * schema_keyword: the table of keywords, in the order of their names, for binary search.
 */
#include "schema/keyword.h"

#include <stdlib.h>

#define KEYWORD_ROW(keyword, text, holds) {SLICE_INIT(text), holds},
static const struct row {
    slice name;
    enum keyword_holds holds;
} keywords[KW_COUNT] = {SCHEMA_KEYWORDS(KEYWORD_ROW)};

static int by_name(const void *name, const void *keyword)
{
    return slice_cmp(*(const slice *)name, *(const slice *)keyword);
}

enum keyword keyword_find(slice name)
{
    /* A row begins with its name. */
    const void *found = bsearch(&name, keywords, KW_COUNT, sizeof(*keywords), by_name);
    return found ? (enum keyword)((const struct row *)found - keywords) : KW_COUNT;
}

slice keyword_name(enum keyword keyword)
{
    return keyword < KW_COUNT ? keywords[keyword].name : SLICE("");
}

enum keyword_holds keyword_holds(enum keyword keyword)
{
    return keyword < KW_COUNT ? keywords[keyword].holds : HOLDS_NOTHING;
}
