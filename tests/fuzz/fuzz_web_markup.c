/*
 * Any text as files of pages: they are refused with file and line, or their pack loads. Each page
 * is then written with data in which every text is hostile: no quote, tag character or scheme of it
 * gets through. The input has up to three files, page, other and frame, separated by lines "----".
 */
#include <stdlib.h>

#include "base/mem.h"
#include "web/markup_compile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    INPUT_MAX = 16 * 1024,
    ARENA_BYTES_MAX = 64 * 1024 * 1024,
    PACK_BYTES_MAX = 1024 * 1024,
    PAGE_BYTES_MAX = 64 * 1024, /* ends texts that repeat themselves */
    FILES_MAX = 3
};

/* Characters that occur in no file. They enclose each sign in the hostile text. */
#define LEFT  "\x02"
#define RIGHT "\x03"
static const char hostile[] = "\"><" LEFT "\"" RIGHT "'" LEFT "'" RIGHT "<" LEFT "<" RIGHT ">" LEFT
                              ">" RIGHT "&" LEFT "&" RIGHT "javascript:";
static const char *const signs[] = {LEFT "\"" RIGHT, LEFT "'" RIGHT, LEFT "<" RIGHT,
                                    LEFT ">" RIGHT,  LEFT "&" RIGHT, "=\"javascript:"};

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

static size_t split(slice text, struct markup_source *sources)
{
    static const char *const paths[] = {"pages/page.html", "pages/other.html", "pages/frame.html"};
    size_t count = 0;
    while (text.ptr && count < FILES_MAX) {
        ptrdiff_t end = count + 1 < FILES_MAX ? slice_find(text, SLICE("\n----\n")) : -1;
        slice part = end < 0 ? text : slice_first(text, (size_t)end);
        sources[count] = (struct markup_source){slice_cstr(paths[count]), part};
        count++;
        text = end < 0 ? SLICE_NONE : slice_from(text, (size_t)end + 6);
    }
    return count;
}

/* Recursive: the sample was parsed from text, which limits its depth. */
static struct json fill(struct arena *arena, const struct json *sample)
{
    struct json made = *sample;
    if (sample->type == JSON_STRING || sample->type == JSON_NULL)
        return json_string(slice_cstr(hostile));
    if (sample->type == JSON_ARRAY) {
        made = json_array();
        for (int i = 0; i < 2 && sample->count > 0; i++)
            json_array_push(arena, &made, fill(arena, &sample->as.items[0]));
    } else if (sample->type == JSON_OBJECT) {
        made = json_object();
        for (uint32_t i = 0; i < sample->count; i++)
            json_object_set(arena, &made, json_str(&sample->as.members[i].key),
                            fill(arena, &sample->as.members[i].value));
    }
    return made;
}

static void write_page(const struct markup_set *set, const struct markup *page, struct arena *arena)
{
    struct err err = {.code = OK};
    struct buf out;
    struct json data = fill(arena, page->data);
    buf_init(&out, PAGE_BYTES_MAX);
    if (arena->is_exhausted)
        return;
    if (markup_render(set, page, &data, arena, &out, &err) == OK) {
        for (size_t i = 0; i < ARRAY_LEN(signs); i++)
            check(slice_find(buf_slice(&out), slice_cstr(signs[i])) < 0);
    } else {
        check(slice_cstr(err.text).len > 0);
    }
    buf_deinit(&out);
}

/* A file that includes itself may do so many times before it ends. */
static bool may_repeat(slice text)
{
    ptrdiff_t first = slice_find(text, SLICE("<use"));
    return first >= 0 && slice_find(slice_from(text, (size_t)first + 1), SLICE("<use")) >= 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct markup_source sources[FILES_MAX];
    struct arena arena;
    struct buf pack;
    struct err err = {.code = OK};
    slice text = slice_of(data, size);
    if (size > INPUT_MAX || slice_find(text, SLICE(LEFT)) >= 0 ||
        slice_find(text, SLICE("javascript:")) >= 0)
        return 0;
    arena_init(&arena, ARENA_BYTES_MAX);
    buf_init(&pack, PACK_BYTES_MAX);
    size_t count = split(text, sources);
    int code = markup_compile(sources, count, &arena, &pack, &err);
    check(code == OK || (err.code == code && slice_cstr(err.text).len > 0));
    if (code == ERR_SYNTAX)
        check(slice_starts_with(slice_cstr(err.text), SLICE("pages/")));
    const struct markup_set *set = code == OK ? markup_load(&arena, buf_slice(&pack), &err) : NULL;
    check(code != OK || set || arena.is_exhausted);
    for (size_t i = 0; set && i < set->count && !may_repeat(text); i++)
        write_page(set, &set->items[i], &arena);
    buf_deinit(&pack);
    arena_deinit(&arena);
    check(mem_live_blocks() == 0);
    return 0;
}
