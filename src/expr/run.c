/*
 * run: charges, memory and errors of one evaluation, and text that grows in its arena. Three limits
 * end an evaluation: visits (time), bytes built or returned (output), and the arena's maximum
 * (memory).
 */
#include "expr/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The offset of errors that no single node causes, such as exceeded budgets. */
enum { NO_OFFSET = INT32_MAX };

/* The words for users omit the function's name and keep the sentence about the value. */
void expr_budget_fail(struct expr_budget *budget, enum expr_fault fault, const char *what)
{
    static const char *const words[] = {
        [EXPR_FAULT_LIMIT] = "its result would be too large",
        [EXPR_FAULT_MEMORY] = "out of memory",
        [EXPR_FAULT_TYPE] = "part of it is missing, or has the wrong type",
    };
    const char *said = strstr(what, "(): ");
    const char *fixed = fault < ARRAY_LEN(words) ? words[fault] : NULL;
    budget->fault = fault;
    if (!fixed)
        fixed = said ? said + strlen("(): ") : "part of it has the wrong format";
    (void)snprintf(budget->words, sizeof(budget->words), "%s", fixed);
}

int expr_run_fail(struct expr_run *run, enum expr_fault fault, uint32_t at, const char *fmt, ...)
{
    ASSERT(fault != EXPR_FAULT_NONE);
    char what[240], where[40] = "in";
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (at != NO_OFFSET)
        snprintf(where, sizeof where, "at offset %u of", at);
    /* The budget's fault is set with the error, so that a caller of several evaluations finds the
     * category of the one that failed. */
    expr_budget_fail(run->budget, fault, what);
    slice excerpt = slice_first(run->source, 200);
    return err_set(run->err, expr_fault_code(fault), "%s: %s, %s the expression %.*s%s",
                   expr_fault_name(fault), what, where, SLICE_ARG(excerpt),
                   excerpt.len < run->source.len ? "..." : "");
}

int expr_run_spent(struct expr_run *run)
{
    return expr_run_fail(run, EXPR_FAULT_LIMIT, NO_OFFSET, "over the budget of %llu node visits",
                         (unsigned long long)run->budget->visits_max);
}

int expr_run_nomem(struct expr_run *run)
{
    return expr_run_fail(run, EXPR_FAULT_MEMORY, NO_OFFSET, "the evaluation ran out of memory");
}

int expr_run_over_bytes(struct expr_run *run)
{
    return expr_run_fail(run, EXPR_FAULT_LIMIT, NO_OFFSET, "over the output budget of %zu bytes",
                         run->budget->bytes_max);
}

int expr_run_over_depth(struct expr_run *run)
{
    return expr_run_fail(run, EXPR_FAULT_LIMIT, NO_OFFSET,
                         "a value is nested more than %d levels deep", JSON_DEPTH_MAX);
}

static size_t bytes_left(const struct expr_run *run)
{
    const struct expr_budget *budget = run->budget;
    /* The subtraction must not wrap, whatever was counted before. */
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
    /* An item costs far less than a visit; the loop that fills the items charges for its own
     * work. */
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

void expr_text_init(struct arena_text *text, struct expr_run *run)
{
    arena_text_init(text, run->arena, bytes_left(run));
}

int expr_text_done(struct expr_run *run, const struct arena_text *text, struct json *out)
{
    if (text->status == ERR_NOMEM)
        return expr_run_nomem(run);
    /* Other text may have been built since this one began. */
    if (text->status == ERR_LIMIT || text->len > bytes_left(run))
        return expr_run_over_bytes(run);
    int rc = expr_run_scan(run, text->len);
    if (rc != OK)
        return rc;
    run->budget->bytes_built += text->len;
    *out = expr_string(text->ptr ? text->ptr : "", text->len);
    return OK;
}
