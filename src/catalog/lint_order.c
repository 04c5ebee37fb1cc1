/*
 * Finds rules of `errors` that no reply can reach: they are tried in order, and the first match
 * applies. Evaluates the conditions for each status, and compares each rule with later rules.
 */
#include "catalog/manifest.h"
#include "expr/condition.h"

enum {
    STATUS_ARENA_BYTES_MAX = 64 * 1024,
    STATUS_MIN = 200,
    STATUS_MAX = 599,
    WHEN_BYTES_MAX = 60
};

struct order_lint {
    const struct catalog_error_rules *rules;
    const struct catalog_error_rule *hides; /* the rule that hides this one at the status checked
                                             * last */
    bool is_by_several;
    bool may_match; /* the rule's condition may be true at some status */
};

static bool is_tried(const struct catalog_error_rule *rule, int64_t status)
{
    return rule->on_success || status >= 300;
}

static bool is_reached(struct order_lint *lint, size_t at, const struct json *known, int64_t status)
{
    const struct catalog_error_rule *rule = &lint->rules->items[at], *former = lint->hides;
    if (!is_tried(rule, status) || expr_foresee(rule->when, known, NULL) == EXPR_FALSE)
        return false;
    lint->may_match = true;
    for (size_t i = 0; i < at; i++) {
        lint->hides = &lint->rules->items[i];
        if (!is_tried(lint->hides, status) ||
            (expr_foresee(lint->hides->when, known, NULL) != EXPR_TRUE &&
             expr_foresee(rule->when, known, lint->hides->when) != EXPR_FALSE))
            continue;
        lint->is_by_several = lint->is_by_several || (former && former != lint->hides);
        return false;
    }
    return true;
}

static bool is_reached_between(struct order_lint *lint, size_t at, int64_t first, int64_t last)
{
    bool is_one = false;
    for (int64_t status = first; status <= last && !is_one; status++) {
        struct arena arena;
        struct json known = json_object();
        arena_init(&arena, STATUS_ARENA_BYTES_MAX);
        json_object_set(&arena, &known, SLICE("status"), json_i64(status));
        is_one = is_reached(lint, at, &known, status);
        arena_deinit(&arena);
    }
    return is_one;
}

static void report_hidden(const struct reader *r, const struct order_lint *lint)
{
    if (!lint->may_match)
        reader_warning(r, NULL,
                       "matches no reply: rules apply to replies whose status is not 2xx and, with "
                       "\"on_success\": true, to those whose status is 2xx");
    else if (lint->is_by_several)
        reader_warning(r, NULL,
                       "is never reached: the rules before it match everything that it matches");
    else
        reader_warning(
            r, NULL,
            "is never reached: rule %u before it matches everything that it matches (%.*s)",
            lint->hides->source_index,
            SLICE_ARG(
                slice_first_utf8(slice_trim(expr_source(lint->hides->when)), WHEN_BYTES_MAX)));
}

/* Rules that match both errors and redirects are meant for errors; only a rule that matches nothing
 * but 3xx is checked for redirects. The cost is quadratic in at most CATALOG_RULES_MAX rules. */
void manifest_lint_order(const struct reader *parent, const struct catalog_error_rules *rules)
{
    struct reader_path list = {parent->path, SLICE("errors"), -1};
    for (size_t i = 0; i < rules->count; i++) {
        struct order_lint lint = {.rules = rules};
        struct reader_path path = {&list, SLICE_NONE, rules->items[i].source_index};
        struct reader r = *parent;
        /* a slip in the rule is the actual fault, and is reported elsewhere with its position */
        struct err slip;
        /* the app's own rules before a part are special cases of the part's rules */
        if (rules->items[i].is_of_part || expr_find_slip(rules->items[i].when, &slip) ||
            is_reached_between(&lint, i, 400, STATUS_MAX) ||
            is_reached_between(&lint, i, STATUS_MIN, 299) ||
            (!lint.may_match && is_reached_between(&lint, i, 300, 399)))
            continue;
        r.path = &path;
        report_hidden(&r, &lint);
    }
}
