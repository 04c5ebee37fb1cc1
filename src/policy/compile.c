/*
 * Compiles a policy's document. All faults are reported at once. The document is not kept, so the
 * policy has copies of its texts.
 */
#include "base/ascii.h"
#include "base/mem.h"
#include "catalog/reader.h"
#include "catalog/recipient.h"
#include "policy/internal.h"

enum { PARSE_ARENA_BYTES_MAX = 8 * 1024 * 1024, GLOB_BYTES_MAX = 100 };

/* ---- conditions ---- */

/* A pattern that no name can match, such as one with a capital letter, is refused: a rule that
 * never applies would seem to protect. */
static bool is_glob(slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!ascii_is_lower(c) && !ascii_is_digit(c) && c != '_' && c != '*')
            return false;
    }
    return text.len > 0 && text.len <= GLOB_BYTES_MAX;
}

/* Reports an item of an array of texts; it is shown as people would write it in JSON. */
static void refuse_item(struct reader *r, const char *name, uint32_t index, slice text,
                        const char *problem)
{
    slice excerpt = json_excerpt(text, r->arena);
    slice pointer = arena_printf(r->arena, "%s/%u", name, index);
    reader_error(r, pointer.ptr, "\"%.*s\" %s", SLICE_ARG(excerpt), problem);
}

/* Reads a list of texts with at least `least` items; NULL without one. The advice follows the
 * message about a wrong number of items. */
static const struct json *read_list(struct reader *r, const char *name, uint32_t least,
                                    const char *advice)
{
    const struct json *list = reader_texts(r, name);
    if (list && (list->count < least || list->count > POLICY_GLOBS_MAX)) {
        reader_error(r, name, "must have %u to %d items%s", least, POLICY_GLOBS_MAX, advice);
        return NULL;
    }
    return list;
}

static struct policy_glob keep_glob(struct arena *arena, slice glob)
{
    return (struct policy_glob){arena_dup(arena, glob), policy_characters(glob)};
}

/* Patterns that exclude are kept apart, so their place in the list does not matter. */
static void read_tools(struct reader *r, struct policy_globs *tools, size_t *left)
{
    const struct json *list = read_list(r, "tools", 1, "; leave it out for all tools");
    uint32_t count = list ? list->count : 0;
    struct policy_glob *any = ARENA_ARRAY(r->arena, struct policy_glob, count),
                       *none = ARENA_ARRAY(r->arena, struct policy_glob, count);
    if (count > *left)
        reader_error(r, "tools", "has too many patterns: all rules together may have %d",
                     POLICY_GLOBS_ALL_MAX);
    *left = count > *left ? SIZE_MAX : *left - count; /* the fault is reported once */
    for (uint32_t i = 0; any && none && i < count; i++) {
        slice text = json_str(&list->as.items[i]);
        bool is_excluded = slice_starts_with(text, SLICE("!"));
        slice glob = slice_from(text, is_excluded ? 1 : 0);
        if (!is_glob(glob))
            refuse_item(r, "tools", i, text,
                        "is not a pattern of a tool's name, which has only a-z, 0-9 and _, like "
                        "gmail_send_message; * matches any text, and ! before a pattern excludes "
                        "what it matches");
        else if (is_excluded)
            none[tools->none_count++] = keep_glob(r->arena, glob);
        else
            any[tools->any_count++] = keep_glob(r->arena, glob);
    }
    tools->any = any;
    tools->none = none;
}

static unsigned read_levels(struct reader *r)
{
    const struct json *list = read_list(r, "side_effect", 1, "; leave it out for all side effects");
    unsigned levels = 0;
    for (uint32_t i = 0; list && i < list->count; i++) {
        slice text = json_str(&list->as.items[i]);
        int level = LEVEL_ADMIN;
        while (level >= 0 && !slice_eq_cstr(text, catalog_level_name((enum catalog_level)level)))
            level--;
        if (level < 0)
            refuse_item(r, "side_effect", i, text, "must be read, write, delete or admin");
        else
            levels |= 1u << level;
    }
    return list ? levels : ~0u;
}

/* An empty list is a condition, too: it holds if there is any recipient. */
static void read_homes(struct reader *r, struct policy_rule *rule)
{
    const struct json *list = read_list(r, "recipients_outside", 0, "");
    slice *homes = ARENA_ARRAY(r->arena, slice, list ? list->count : 0);
    rule->has_homes = list != NULL;
    rule->homes = homes;
    for (uint32_t i = 0; homes && list && i < list->count; i++) {
        char room[RECIPIENT_DOMAIN_MAX + 1];
        slice text = json_str(&list->as.items[i]), domain = recipient_domain(text, room);
        if (domain.ptr)
            homes[rule->home_count++] = arena_dup(r->arena, domain);
        else
            refuse_item(r, "recipients_outside", i, text,
                        "is not a domain, like acme.com, which includes its subdomains");
    }
}

/* A name that does not exist is null, which a condition takes for false without a fault. */
static bool check_root(void *user, const slice *names, size_t count)
{
    struct reader *r = user;
    if (count == 0 || slice_eq_cstr(names[0], "input") || slice_eq_cstr(names[0], "tool") ||
        slice_eq_cstr(names[0], "user"))
        return true;
    slice excerpt = json_excerpt(names[0], r->arena);
    bool is_literal = slice_has_word(SLICE("null true false"), names[0]);
    if (is_literal)
        reader_error(r, "when",
                     "%.*s is the name of a member here; the value is written in backquotes: "
                     "`%.*s`",
                     SLICE_ARG(excerpt), SLICE_ARG(excerpt));
    else
        reader_error(r, "when",
                     "there is no \"%.*s\", only input, tool and user; is input.%.*s meant?",
                     SLICE_ARG(excerpt), SLICE_ARG(excerpt));
    return false;
}

static const struct expr *read_when(struct reader *r)
{
    const struct expr *when = reader_expr(r, "when");
    /* a rule without its condition would decide about more than was meant */
    if (json_is(json_get(r->object, SLICE("when")), JSON_NULL))
        reader_error(r, "when", "must be a JMESPath expression in a string, got null");
    if (when)
        expr_root_names(when, check_root, r);
    return when;
}

/* ---- decisions ---- */

static enum policy_decision read_decision(struct reader *r, const char *name)
{
    static const char *const names[] = {"allow", "confirm", "hold", "deny", NULL};
    if (!json_get(r->object, slice_cstr(name)))
        reader_error(r, NULL, "member \"%s\" is missing: allow, confirm, hold or deny", name);
    return (enum policy_decision)reader_choice(r, name, names, POLICY_DENY);
}

/* How long a held call waits, in seconds; 0 for a rule that does not hold. */
static uint32_t read_expires(struct reader *r, enum policy_decision decision)
{
    const struct json *value = reader_member(r, "expires_in");
    int64_t expires_s = POLICY_EXPIRES_S;
    if (value && decision != POLICY_HOLD)
        reader_error(r, "expires_in", "is for rules that hold");
    else if (value && (!json_to_i64(value, &expires_s) || expires_s < POLICY_EXPIRES_S_MIN ||
                       expires_s > POLICY_EXPIRES_S_MAX))
        reader_error(r, "expires_in", "must be a number of seconds from %d to %d (30 days)",
                     POLICY_EXPIRES_S_MIN, POLICY_EXPIRES_S_MAX);
    return decision == POLICY_HOLD ? (uint32_t)expires_s : 0;
}

/* The reason becomes a part of messages, which are one line. */
static slice read_reason(struct reader *r)
{
    slice reason = reader_text(r, "reason");
    if (reason.ptr && !slice_is_name(reason, POLICY_REASON_MAX))
        reader_error(r, "reason",
                     "must be one line of 1 to %d characters, without control "
                     "characters",
                     POLICY_REASON_MAX);
    return reason.ptr ? arena_dup(r->arena, reason) : SLICE_NONE;
}

/* Whether an action is known cannot depend on a call's input. */
static bool read_hidden(struct reader *r, const struct policy_rule *rule)
{
    bool is_hidden = reader_bool(r, "hidden", false);
    if (is_hidden && rule->decision != POLICY_DENY)
        reader_error(r, "hidden", "is for rules that deny");
    if (is_hidden && (rule->when || rule->has_homes))
        reader_error(r, "hidden",
                     "cannot be combined with \"when\" or \"recipients_outside\": an action is "
                     "hidden for all inputs or for none");
    return is_hidden;
}

static void read_rule(struct reader *parent, struct reader_path *path, const struct json *object,
                      struct policy_rule *rule, size_t *globs_left)
{
    struct reader r;
    if (!reader_init(&r, parent, path, object))
        return;
    rule->decision = read_decision(&r, "decision");
    read_tools(&r, &rule->tools, globs_left);
    rule->levels = read_levels(&r);
    read_homes(&r, rule);
    rule->when = read_when(&r);
    rule->reason = read_reason(&r);
    rule->is_hidden = read_hidden(&r, rule);
    rule->expires_s = read_expires(&r, rule->decision);
    reader_finish(&r);
}

/* A policy without rules is its default. */
static void read_rules(struct reader *r, struct policy *policy)
{
    const struct json *array = reader_member(r, "rules");
    if (!array)
        return;
    if (array->type != JSON_ARRAY || array->count > POLICY_RULES_MAX) {
        reader_error(r, "rules", "must be an array of at most %d rules", POLICY_RULES_MAX);
        return;
    }
    struct policy_rule *rules = ARENA_ARRAY(r->arena, struct policy_rule, array->count);
    size_t globs_left = POLICY_GLOBS_ALL_MAX;
    policy->rules = rules;
    for (uint32_t i = 0; rules && i < array->count; i++) {
        struct reader_path path = {r->path, SLICE("rules"), i};
        read_rule(r, &path, &array->as.items[i], &rules[i], &globs_left);
    }
    policy->rule_count = rules ? array->count : 0;
}

/* ---- the document ---- */

static void read_policy(struct policy *policy, slice source, const struct json *document,
                        struct catalog_report *report)
{
    const struct reader parent = {.report = report, .arena = &policy->arena, .source = source};
    struct reader r;
    if (!reader_init(&r, &parent, NULL, document))
        return;
    policy->fallback = read_decision(&r, "default");
    read_rules(&r, policy);
    reader_finish(&r);
    /* Members that found no memory are absent, which could make a rule match more or less. */
    if (policy->arena.is_exhausted)
        catalog_report_add(report, false, source, SLICE_NONE,
                           "the policy needs more than %d KiB of memory: shorten its conditions",
                           POLICY_ARENA_BYTES_MAX / 1024);
}

static struct policy *compile(slice source, const struct json *document, slice label,
                              struct catalog_report *report)
{
    struct policy *policy = mem_zalloc(sizeof(*policy));
    size_t errors = report->error_count;
    if (!policy) {
        catalog_report_add(report, false, source, SLICE_NONE, "out of memory");
        return NULL;
    }
    policy->refs = 1;
    arena_init(&policy->arena, POLICY_ARENA_BYTES_MAX);
    policy->label = label.ptr ? arena_dup(&policy->arena, label) : SLICE_NONE;
    read_policy(policy, source, document, report);
    if (report->error_count == errors)
        return policy;
    policy_unref(policy);
    return NULL;
}

struct policy *policy_compile(const struct json *document, slice label,
                              struct catalog_report *report)
{
    return compile(SLICE_NONE, document, label, report);
}

struct policy *policy_compile_text(slice source, slice text, slice label,
                                   struct catalog_report *report)
{
    struct arena arena;
    struct err err;
    struct policy *policy = NULL;
    if (text.len > POLICY_BODY_BYTES_MAX) {
        catalog_report_add(report, false, source, SLICE_NONE, "is larger than %d bytes",
                           POLICY_BODY_BYTES_MAX);
        return NULL;
    }
    arena_init(&arena, PARSE_ARENA_BYTES_MAX);
    const struct json *document = json_parse(&arena, text, &json_limits_request, &err);
    if (document)
        policy = compile(source, document, label, report);
    else
        catalog_report_add(report, false, source, SLICE_NONE, "%s", err.text);
    arena_deinit(&arena);
    return policy;
}
