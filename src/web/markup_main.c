/*
 * A program of the build: compiles pages and writes their pack, which is compiled into sluice.
 *
 * markup-pack FILE.html... >markup.pack
 */
#include <stdio.h>
#include <stdlib.h>

#include "web/markup_compile.h"

enum { FILE_BYTES_MAX = 256 * 1024, ARENA_BYTES_MAX = 64 * 1024 * 1024 };

static bool read_file(const char *path, struct arena *arena, struct markup_source *source)
{
    FILE *file = fopen(path, "rb");
    char *text = arena_alloc_text(arena, FILE_BYTES_MAX);
    size_t len = file && text ? fread(text, 1, FILE_BYTES_MAX, file) : 0;
    bool is_read = file && text && !ferror(file) && len < FILE_BYTES_MAX;
    if (!is_read)
        (void)fprintf(stderr, "%s: cannot be read, or has more than %d bytes\n", path,
                      FILE_BYTES_MAX);
    if (file)
        (void)fclose(file);
    *source = (struct markup_source){slice_cstr(path), slice_of(text, len)};
    return is_read;
}

int main(int argc, char **argv)
{
    struct markup_source sources[MARKUP_FILES_MAX];
    struct arena arena;
    struct buf pack;
    struct err err = {0};
    size_t count = 0;
    bool is_read = argc - 1 <= MARKUP_FILES_MAX;
    arena_init(&arena, ARENA_BYTES_MAX);
    buf_init(&pack, ARENA_BYTES_MAX);
    for (int i = 1; i < argc && is_read; i++)
        is_read = read_file(argv[i], &arena, &sources[count++]);
    bool is_compiled = is_read && markup_compile(sources, count, &arena, &pack, &err) == OK;
    if (is_read && !is_compiled)
        (void)fprintf(stderr, "%s\n", err.text);
    bool is_written = is_compiled && fwrite(pack.ptr, 1, pack.len, stdout) == pack.len &&
                      fflush(stdout) == 0;
    buf_deinit(&pack);
    arena_deinit(&arena);
    return is_written ? EXIT_SUCCESS : EXIT_FAILURE;
}
