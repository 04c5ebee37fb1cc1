/*
 * schema_pattern: PCRE2 with limits. Patterns come from manifests and templates, texts from
 * clients: some pairs take exponential time (ReDoS). Each item of a pattern therefore costs fuel
 * through a callout. Memory for matching is one block per thread. A match that backtracks very far
 * uses more of it, up to FRAMES_KIB_MAX, in steps that double. Fresh pages cost more than the match
 * itself, so they are kept for the next matches and given back after KEPT_MATCHES.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "schema/pattern.h"

#include <pcre2.h>
#include <sys/mman.h>

#include "base/thread_block.h"
#include "schema/schema.h"
#include "schema/regex.h"

enum {
    SPACE_BYTES = 192 * 1024,
    FRAMES_KIB_MAX = 4 * 1024,
    /* The frames before and after a growth, both of at most FRAMES_KIB_MAX. */
    GROWN_BYTES = 2 * FRAMES_KIB_MAX * 1024,
    PAGE_BYTES = 4096,
    KEPT_MATCHES = 1000,
    /* The cost of an item in units of SCHEMA_FUEL, and of a match before its first item. */
    CALLOUT_FUEL = 15,
    MATCH_FUEL = 60,
    TRANSLATED_BYTES_MAX = 1024 * 1024,
};

struct schema_pattern {
    pcre2_code *code;
    slice source;
    struct schema_regex_info info;
};

/* ---- compiling ---- */

static void *arena_malloc(PCRE2_SIZE size, void *arena)
{
    return arena_alloc(arena, size);
}

static void arena_free(void *ptr, void *arena)
{
    /* Nothing is freed one by one: the arena is freed as a whole. */
    (void)ptr;
    (void)arena;
}

static int refuse_pattern(struct err *err, int fault, size_t offset)
{
    unsigned char text[128] = "";
    if (fault == PCRE2_ERROR_HEAP_FAILED)
        return err_set(err, ERR_NOMEM, "pattern: out of memory");
    pcre2_get_error_message(fault, text, sizeof(text));
    return err_set(err, ERR_SYNTAX, "pattern near byte %zu: %s", offset, (const char *)text);
}

static pcre2_code *compile_translated(struct arena *arena, slice text, struct err *err)
{
    /* ECMA-262: $ matches only at the very end, [] never matches, an unset group matches the
     * empty text. AUTO_CALLOUT puts the callout before each item. \C is disabled because it
     * would match half a character. */
    const uint32_t options = PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALLOW_EMPTY_CLASS |
                             PCRE2_MATCH_UNSET_BACKREF | PCRE2_AUTO_CALLOUT |
                             PCRE2_NEVER_BACKSLASH_C;
    int fault = 0;
    PCRE2_SIZE offset = 0;
    /* These contexts are also in the arena and are not freed. */
    pcre2_general_context *general = pcre2_general_context_create(arena_malloc, arena_free, arena);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    if (!context) {
        refuse_pattern(err, PCRE2_ERROR_HEAP_FAILED, 0);
        return NULL;
    }
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)text.ptr, text.len, options, &fault, &offset, context);
    if (!code)
        refuse_pattern(err, arena->is_exhausted ? PCRE2_ERROR_HEAP_FAILED : fault, offset);
    return code;
}

struct schema_pattern *schema_pattern_compile(struct arena *arena, slice source, struct err *err)
{
    if (source.len > SCHEMA_PATTERN_BYTES_MAX)
        return err_null(err, ERR_LIMIT, "pattern: longer than %d bytes", SCHEMA_PATTERN_BYTES_MAX);
    struct schema_pattern *pattern = ARENA_NEW(arena, struct schema_pattern);
    if (!pattern)
        return err_null(err, ERR_NOMEM, "pattern: out of memory");
    pattern->source = source;
    struct buf translated;
    buf_init(&translated, TRANSLATED_BYTES_MAX);
    buf_append(&translated, SLICE("")); /* an empty pattern matches everything */
    int code = schema_regex_translate(source, &translated, &pattern->info, err);
    if (code == OK && !buf_is_ok(&translated))
        code = err_set(err, ERR_NOMEM, "pattern: out of memory");
    if (code == OK) {
        slice text = translated.len ? buf_slice(&translated) : SLICE("");
        pattern->code = compile_translated(arena, text, err);
    }
    buf_deinit(&translated);
    return pattern->code ? pattern : NULL;
}

slice schema_pattern_source(const struct schema_pattern *pattern)
{
    return pattern->source;
}

/* ---- matching ---- */

/* Pages of it become resident when they are touched (base/thread_block.h). */
struct matcher {
    _Alignas(16) char grown[GROWN_BYTES];
    _Alignas(16) char space[SPACE_BYTES];
    size_t used;
    /* Bytes in use at the beginning and at the end of `grown`. */
    size_t low, high;
    /* After so many matches the grown frames are given back; 0: there are none. */
    size_t kept_matches;
    pcre2_match_context *context;
    pcre2_match_data *data;
};

/* Allocated only in threads that validate. */
static _Thread_local struct matcher *matcher;

/* PCRE2 grows its frames by a copy into a new block, then frees the old one, so blocks take turns
 * at the two ends of `grown`. */
static void *grown_malloc(size_t size)
{
    size_t left = GROWN_BYTES - matcher->low - matcher->high;
    if (size > left || (matcher->low > 0 && matcher->high > 0))
        return NULL;
    matcher->kept_matches = KEPT_MATCHES;
    if (matcher->low == 0) {
        matcher->low = size;
        return matcher->grown;
    }
    matcher->high = size;
    return matcher->grown + GROWN_BYTES - size;
}

static void *matcher_malloc(PCRE2_SIZE size, void *unused)
{
    (void)unused;
    /* PCRE2 stores pointers and sizes: blocks are aligned to 16. */
    size_t rounded = (size + 15) & ~(size_t)15;
    if (rounded < size)
        return NULL;
    if (rounded > SPACE_BYTES - matcher->used)
        return grown_malloc(rounded);
    void *ptr = matcher->space + matcher->used;
    matcher->used += rounded;
    return ptr;
}

static void matcher_free(void *ptr, void *unused)
{
    (void)unused;
    /* Parts of `space` are not freed one by one; matcher_prepare resets it. */
    if (ptr == matcher->grown)
        matcher->low = 0;
    else if (matcher->high > 0 && ptr == matcher->grown + GROWN_BYTES - matcher->high)
        matcher->high = 0;
}

/* Resets the block and creates the contexts at its start. */
static bool matcher_prepare(void)
{
    if (!matcher && !(matcher = thread_block_new(sizeof(*matcher))))
        return false;
    matcher->used = matcher->low = matcher->high = 0;
    pcre2_general_context *general =
        pcre2_general_context_create(matcher_malloc, matcher_free, NULL);
    matcher->context = general ? pcre2_match_context_create(general) : NULL;
    /* One pair of offsets: only whether the pattern matches is of interest. */
    matcher->data = general ? pcre2_match_data_create(1, general) : NULL;
    if (!matcher->context || !matcher->data)
        return false;
    pcre2_set_heap_limit(matcher->context, FRAMES_KIB_MAX);
    return true;
}

/* The next match begins with small frames again. */
static void matcher_give_back(void)
{
    uintptr_t begin = ((uintptr_t)matcher->grown + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1);
    uintptr_t end = (uintptr_t)(matcher->grown + GROWN_BYTES) & ~(uintptr_t)(PAGE_BYTES - 1);
    /* If this fails, the pages stay resident, which does no harm. */
    madvise((void *)begin, end - begin, MADV_DONTNEED);
    matcher->data = NULL; /* prepared again by the next match */
}

struct match_run {
    uint64_t fuel;
    size_t at;
    size_t item_cost;
    bool has_backreference;
};

/* Each item pays for the distance from the previous item, for a fixed repeat that may have failed
 * in between, and for a comparison with an earlier group. */
static int on_callout(pcre2_callout_block *block, void *arg)
{
    struct match_run *run = arg;
    size_t at = block->current_position;
    size_t way = at > run->at ? at - run->at : run->at - at;
    uint64_t cost = CALLOUT_FUEL + way + run->item_cost;
    /* A back reference may compare all text since the match began. */
    if (run->has_backreference && at > block->start_match)
        cost += at - block->start_match;
    run->at = at;
    if (cost > run->fuel)
        return PCRE2_ERROR_CALLOUT;
    run->fuel -= cost;
    return 0;
}

enum schema_match schema_pattern_match(const struct schema_pattern *pattern, slice text,
                                       uint64_t *fuel)
{
    /* PCRE2 tries each byte of the text as a start, before any callout. */
    uint64_t fixed = MATCH_FUEL + text.len;
    if (*fuel < fixed || ((!matcher || !matcher->data) && !matcher_prepare()))
        return SCHEMA_MATCH_FUEL;
    size_t repeat = pattern->info.repeat_min_max;
    /* The callout counts down a copy of the fuel; the caller's value is set after the match. */
    struct match_run run = {*fuel - fixed, 0, repeat < text.len ? repeat : text.len,
                            pattern->info.has_backreference};
    pcre2_set_callout(matcher->context, on_callout, &run);
    /* PCRE2 refuses a NULL subject, even one of length 0. */
    PCRE2_SPTR subject = (PCRE2_SPTR)(text.ptr ? text.ptr : "");
    int result =
        pcre2_match(pattern->code, subject, text.len, 0, 0, matcher->data, matcher->context);
    *fuel = run.fuel;
    if (matcher->kept_matches > 0 && --matcher->kept_matches == 0)
        matcher_give_back();
    if (result >= 0)
        return SCHEMA_MATCH_YES;
    bool is_limit = result == PCRE2_ERROR_CALLOUT || result == PCRE2_ERROR_MATCHLIMIT ||
                    result == PCRE2_ERROR_DEPTHLIMIT || result == PCRE2_ERROR_HEAPLIMIT ||
                    result == PCRE2_ERROR_NOMEMORY;
    return is_limit ? SCHEMA_MATCH_FUEL : SCHEMA_MATCH_NO;
}
