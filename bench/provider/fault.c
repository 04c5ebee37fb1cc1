/*
 * See fault.h.
 */
#include "provider/fault.h"

#include "base/mem.h"
#include "provider/token.h"

enum { RULES_BYTES_MAX = 4 * 1024 * 1024, MS_MAX = 3600000 };

struct rule {
    slice method, path_prefix, token; /* empty: any */
    int64_t left;                     /* -1: for ever */
    int64_t skip;                     /* number of matching requests to let pass first */
    uint64_t hits;
    struct fault fault;
};

struct faults {
    struct arena arena; /* the rules, and their texts */
    struct rule *rules;
    size_t count;
    uint64_t changes;
};

/* The member of an action that names each kind. Its value is the kind's word, if there is one, or
 * true, if is_true is set. Otherwise it is a number or an object. */
static const struct {
    const char *member, *word;
    bool is_true;
    enum fault_kind kind;
} kinds[] = {
    {"status", NULL, false, FAULT_STATUS},
    {"slow_body", NULL, false, FAULT_SLOW_BODY},
    {"reset", "before", true, FAULT_RESET_BEFORE},
    {"reset", "after", false, FAULT_RESET_AFTER},
    {"reset", "mid_body", false, FAULT_RESET_MID_BODY},
    {"hang", "before", true, FAULT_HANG_BEFORE},
    {"hang", "after", false, FAULT_HANG_AFTER},
    {"endless_body", NULL, true, FAULT_ENDLESS_BODY},
    {"close_after_headers", NULL, true, FAULT_CLOSE_AFTER_HEADERS},
    {"garbage", NULL, true, FAULT_GARBAGE},
};

struct faults *faults_new(void)
{
    struct faults *faults = mem_zalloc(sizeof(*faults));
    ASSERT(faults);
    arena_init(&faults->arena, RULES_BYTES_MAX);
    return faults;
}

void faults_free(struct faults *faults)
{
    arena_deinit(&faults->arena);
    mem_free(faults);
}

void faults_clear(struct faults *faults)
{
    arena_reset(&faults->arena);
    faults->rules = NULL;
    faults->count = 0;
    faults->changes++;
}

uint64_t faults_changes(const struct faults *faults)
{
    return faults->changes;
}

/* Refuses an unknown member: a misspelt rule would match nothing, and its test would prove
 * nothing. */
static int check_members(const struct json *object, const char *names, const char *where,
                         struct err *err)
{
    if (!json_is(object, JSON_OBJECT))
        return err_set(err, ERR_INVALID, "%s must be an object", where);
    for (uint32_t i = 0; i < object->count; i++)
        if (!slice_has_word(slice_cstr(names), json_str(&object->as.members[i].key)))
            return err_set(err, ERR_INVALID, "%s has an unknown member %.*s", where,
                           SLICE_ARG(json_str(&object->as.members[i].key)));
    return OK;
}

/* Reads a number. On entry *out is the value for a missing member. */
static int read_number(const struct json *object, const char *name, int64_t min, int64_t max,
                       int64_t *out, struct err *err)
{
    const struct json *value = json_get(object, slice_cstr(name));
    if (!value || (json_to_i64(value, out) && *out >= min && *out <= max))
        return OK;
    return err_set(err, ERR_INVALID, "%s must be %lld to %lld", name, (long long)min,
                   (long long)max);
}

static enum fault_kind find_kind(const struct json *action)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct json *value = json_get(action, slice_cstr(kinds[i].member));
        bool is_true = json_is(value, JSON_BOOL) && value->as.boolean;
        if (value && (kinds[i].word && !is_true ? slice_eq_cstr(json_str(value), kinds[i].word)
                                                : kinds[i].is_true == is_true))
            return kinds[i].kind;
    }
    return FAULT_NONE;
}

/* Reads a rule's action, which must live as long as the fault. */
static int read_action(struct arena *arena, const struct json *action, struct fault *fault,
                       struct err *err)
{
    static const char names[] = "latency_ms status retry_after body executed reset slow_body "
                                "endless_body close_after_headers garbage hang hold";
    const struct json *slow = JSON_GET(action, "slow_body"), *body = JSON_GET(action, "body");
    *fault = (struct fault){.retry_after_s = -1,
                            .slow_bytes = 1,
                            .slow_interval_ms = 100,
                            .is_held = json_get_bool(action, SLICE("hold"), false),
                            .is_executed = json_get_bool(action, SLICE("executed"), false),
                            .is_body_json = !json_is(body, JSON_STRING)};
    if (check_members(action, names, "action", err) != OK ||
        read_number(action, "latency_ms", 0, MS_MAX, &fault->latency_ms, err) != OK ||
        read_number(action, "retry_after", -1, INT64_MAX, &fault->retry_after_s, err) != OK ||
        read_number(action, "status", 200, 599, &fault->status, err) != OK ||
        read_number(slow, "bytes", 1, INT64_MAX, &fault->slow_bytes, err) != OK ||
        read_number(slow, "interval_ms", 0, INT32_MAX, &fault->slow_interval_ms, err) != OK)
        return err->code;
    fault->body = body && fault->is_body_json ? json_text_of(body, arena, FAULT_BODY_MAX)
                                              : json_str(body);
    fault->kind = find_kind(action);
    return fault->kind != FAULT_NONE || fault->is_held || JSON_GET(action, "latency_ms")
               ? OK
               : err_set(err, ERR_INVALID, "the action does nothing that is known");
}

static int read_rule(struct arena *arena, const struct json *input, struct rule *rule,
                     struct err *err)
{
    const struct json *match = JSON_GET(input, "match");
    rule->left = -1;
    if (check_members(input, "match count skip action", "a rule", err) != OK ||
        (match && check_members(match, "method path_prefix token", "match", err) != OK) ||
        read_number(input, "count", -1, INT64_MAX, &rule->left, err) != OK ||
        read_number(input, "skip", 0, INT64_MAX, &rule->skip, err) != OK)
        return err->code;
    rule->method = json_get_str(match, SLICE("method"));
    rule->path_prefix = json_get_str(match, SLICE("path_prefix"));
    rule->token = json_get_str(match, SLICE("token"));
    return read_action(arena, JSON_GET(input, "action"), &rule->fault, err);
}

int faults_set(struct faults *faults, const struct json *document, struct err *err)
{
    const struct json *list = JSON_GET(document, "rules");
    struct faults fresh = {.changes = faults->changes + 1};
    int status = OK;
    if (!json_is(list, JSON_ARRAY) || list->count > FAULT_RULES_MAX)
        return err_set(err, ERR_INVALID, "rules must be an array of at most %d", FAULT_RULES_MAX);
    arena_init(&fresh.arena, RULES_BYTES_MAX);
    list = json_dup(&fresh.arena, list);
    fresh.rules = ARENA_ARRAY(&fresh.arena, struct rule, FAULT_RULES_MAX);
    for (; list && status == OK && fresh.count < list->count; fresh.count++)
        status =
            read_rule(&fresh.arena, json_at(list, fresh.count), &fresh.rules[fresh.count], err);
    if (status != OK)
        err_prefix(err, "rule %zu", fresh.count - 1);
    else if (fresh.arena.is_exhausted)
        status = err_set(err, ERR_NOMEM, "out of memory");
    arena_deinit(status == OK ? &faults->arena : &fresh.arena);
    if (status == OK)
        *faults = fresh;
    return status;
}

const struct fault *faults_take(struct faults *faults, const struct http_exchange *http)
{
    for (size_t i = 0; i < faults->count; i++) {
        struct rule *rule = &faults->rules[i];
        if (rule->left == 0 || !slice_starts_with(http->head.path, rule->path_prefix) ||
            (rule->method.len && !slice_eq(rule->method, http->head.method_text)) ||
            (rule->token.len && !slice_eq(rule->token, token_bearer(http))))
            continue;
        if (rule->skip-- > 0)
            continue;
        rule->left -= rule->left > 0;
        rule->hits++;
        return &rule->fault;
    }
    return NULL;
}

void faults_write(struct json_writer *w, const struct faults *faults)
{
    json_open(w, '{');
    json_member_open(w, "rules", '[');
    for (size_t i = 0; i < faults->count; i++) {
        const struct rule *rule = &faults->rules[i];
        json_open(w, '{');
        json_member_str(w, "method", rule->method);
        json_member_str(w, "path_prefix", rule->path_prefix);
        json_member_i64(w, "left", rule->left);
        json_member_i64(w, "hits", (int64_t)rule->hits);
        json_close(w, '}');
    }
    json_close(w, ']');
    json_close(w, '}');
}
