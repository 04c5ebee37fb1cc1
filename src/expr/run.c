/*
 * run: charges, memory and errors of one evaluation, and text that grows in its arena. Three limits
 * end an evaluation: visits (time), bytes built or given (output), and the arena's own (memory).
 */
#include "expr/run.h"

#include <stdarg.h>
#include <stdio.h>

int expr_run_fail(struct expr_run *run, enum expr_fault fault, uint32_t at, const char *fmt, ...)
{
    ASSERT(fault != EXPR_FAULT_NONE);
    char what[240];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    /* Set with the error: a caller that has several evaluations finds the category of the one that
     * failed. */
    run->budget->fault = fault;
    slice excerpt = slice_first(run->source, 200);
    return err_set(run->err, expr_fault_code(fault),
                   "%s: %s, at offset %u of the expression %.*s%s", expr_fault_name(fault), what,
                   at, SLICE_ARG(excerpt), excerpt.len < run->source.len ? "..." : "");
}

/* For what belongs to no single node: budgets and memory. */
PRINTF_LIKE(3, 4)
static int fail_whole(struct expr_run *run, enum expr_fault fault, const char *fmt, ...)
{
    char what[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    run->budget->fault = fault;
    slice excerpt = slice_first(run->source, 200);
    return err_set(run->err, expr_fault_code(fault), "%s, in the expression %.*s%s", what,
                   SLICE_ARG(excerpt), excerpt.len < run->source.len ? "..." : "");
}

int expr_run_spent(struct expr_run *run)
{
    return fail_whole(run, EXPR_FAULT_LIMIT, "limit: over the budget of %llu node visits",
                      (unsigned long long)run->budget->visits_max);
}

int expr_run_nomem(struct expr_run *run)
{
    return fail_whole(run, EXPR_FAULT_MEMORY, "memory: the evaluation ran out of memory");
}

int expr_run_over_bytes(struct expr_run *run)
{
    return fail_whole(run, EXPR_FAULT_LIMIT, "limit: over the output budget of %zu bytes",
                      run->budget->bytes_max);
}

int expr_run_over_depth(struct expr_run *run)
{
    return fail_whole(run, EXPR_FAULT_LIMIT, "limit: a value is nested over %d deep",
                      JSON_DEPTH_MAX);
}

static size_t bytes_left(const struct expr_run *run)
{
    const struct expr_budget *budget = run->budget;
    /* The difference must not wrap, whatever was counted before. */
    return budget->bytes_max > budget->bytes_built ? budget->bytes_max - budget->bytes_built : 0;
}

int expr_run_text(struct expr_run *run, size_t len, char **out)
{
    if (len > bytes_left(run))
        return expr_run_over_bytes(run);
    int rc = expr_run_scan(run, len);
    if (rc != OK)
        return rc;
    run->budget->bytes_built += len;
    *out = arena_alloc_text(run->arena, len ? len : 1);
    return *out ? OK : expr_run_nomem(run);
}

int expr_run_items(struct expr_run *run, size_t count, struct json **out)
{
    /* An item costs far less than a visit; its use is charged by the loop that fills it. */
    int rc = expr_run_visit(run, count / EXPR_SCAN_UNIT);
    if (rc != OK)
        return rc;
    *out = arena_alloc(run->arena, (count ? count : 1) * sizeof(struct json));
    return *out ? OK : expr_run_nomem(run);
}

int expr_run_members(struct expr_run *run, size_t count, struct json_member **out)
{
    int rc = expr_run_visit(run, count / EXPR_SCAN_UNIT);
    if (rc != OK)
        return rc;
    *out = arena_alloc(run->arena, (count ? count : 1) * sizeof(struct json_member));
    return *out ? OK : expr_run_nomem(run);
}

/* ---- growing text ---- */

void expr_text_init(struct expr_text *text, struct expr_run *run)
{
    *text = (struct expr_text){.run = run};
}

static bool text_grow(struct expr_text *text, size_t len)
{
    size_t left = bytes_left(text->run);
    if (text->len > left || len > left - text->len) {
        text->status = expr_run_over_bytes(text->run);
        return false;
    }
    /* Doubles, so growing copies each byte about twice at most. */
    size_t cap = text->cap * 2 > text->len + len ? text->cap * 2 : text->len + len;
    cap = cap < 128 ? 128 : cap;
    /* The old size is that of the block, not what is in use: by it the arena finds out whether this
     * is its newest block and can grow in place. */
    char *ptr = arena_realloc(text->run->arena, text->ptr, text->cap, cap);
    if (!ptr) {
        text->status = expr_run_nomem(text->run);
        return false;
    }
    text->ptr = ptr;
    text->cap = cap;
    return true;
}

char *expr_text_reserve(struct expr_text *text, size_t len)
{
    if (text->status != OK)
        return NULL;
    if (len > text->cap - text->len && !text_grow(text, len))
        return NULL;
    ASSERT(len <= text->cap - text->len);
    return text->ptr + text->len;
}

void expr_text_add(struct expr_text *text, slice bytes)
{
    char *to = bytes.len > 0 ? expr_text_reserve(text, bytes.len) : NULL;
    if (!to)
        return;
    memcpy(to, bytes.ptr, bytes.len);
    text->len += bytes.len;
}

void expr_text_printf(struct expr_text *text, const char *fmt, ...)
{
    char line[256];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    /* Formats here are of fixed width or bounded names. */
    ASSERT(len >= 0 && (size_t)len < sizeof line);
    expr_text_add(text, slice_of(line, (size_t)len));
}

int expr_text_done(struct expr_text *text, struct json *out)
{
    if (text->status != OK)
        return text->status;
    struct expr_run *run = text->run;
    /* The budget may have shrunk since the last growth: other text may have been built
     * meanwhile. */
    if (text->len > bytes_left(run))
        return expr_run_over_bytes(run);
    int rc = expr_run_scan(run, text->len);
    if (rc != OK)
        return rc;
    run->budget->bytes_built += text->len;
    *out = expr_string(text->ptr ? text->ptr : "", text->len);
    return OK;
}
