/*
 * Compiles the files of src/web/pages; used by the build and by tests. README.md there describes
 * the language. A file's markup has to be complete: every element and every tag of the language is
 * closed in the file, the loop and the branch in which it was opened, so that the position of each
 * `${...}` is known here.
 */
#ifndef WEB_MARKUP_COMPILE_H
#define WEB_MARKUP_COMPILE_H

#include "web/markup.h"

struct markup_source {
    slice path, text; /* "src/web/pages/flow_row.html" */
};

/* Appends the pack of all files, which refer to each other. *err is "path:line: what is wrong and
 * what to do". Allocates in the arena, which may be freed afterwards. */
int markup_compile(const struct markup_source *sources, size_t count, struct arena *arena,
                   struct buf *pack, struct err *err) MUST_CHECK;

#endif
