/*
 * See fault.h.
 */
#include "provider/fault.h"

#include "base/mem.h"

struct rule {
    slice method, path_prefix, token; /* empty: any */
    int64_t left;                     /* -1: for ever */
    int64_t skip;                     /* matching requests to let pass first */
    uint64_t hits;
    struct fault fault;
};

struct faults {
    struct arena arena; /* texts of the rules */
    struct rule *rules;
    size_t count;
    uint64_t changes;
};

struct faults *faults_new(void)
{
    struct faults *faults = mem_zalloc(sizeof(*faults));
    if (faults)
        arena_init(&faults->arena, 4 * 1024 * 1024);
    return faults;
}

void faults_free(struct faults *faults)
{
    if (!faults)
        return;
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

/* An unknown member is an error: a misspelt rule would match nothing, and its test prove nothing.
 */
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

/* Actions that are a word, or true where there is no word or it is the first one. */
static const struct {
    const char *member, *word;
    bool is_true;
    enum fault_kind kind;
} kinds[] = {
    {"reset", "before", true, FAULT_RESET_BEFORE},
    {"reset", "after", false, FAULT_RESET_AFTER},
    {"reset", "mid_body", false, FAULT_RESET_MID_BODY},
    {"hang", "before", true, FAULT_HANG_BEFORE},
    {"hang", "after", false, FAULT_HANG_AFTER},
    {"endless_body", NULL, true, FAULT_ENDLESS_BODY},
    {"close_after_headers", NULL, true, FAULT_CLOSE_AFTER_HEADERS},
    {"garbage", NULL, true, FAULT_GARBAGE},
};

static enum fault_kind find_kind(const struct json *action)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct json *value = json_get(action, slice_cstr(kinds[i].member));
        bool is_it = kinds[i].is_true && json_is(value, JSON_BOOL) && value->as.boolean;
        if (is_it || (kinds[i].word && slice_eq_cstr(json_str(value), kinds[i].word)))
            return kinds[i].kind;
    }
    return FAULT_NONE;
}

static int read_status(struct arena *arena, const struct json *action, struct fault *fault,
                       struct err *err)
{
    int64_t status = json_get_i64(action, SLICE("status"), 0);
    const struct json *body = JSON_GET(action, "body");
    if (status < 200 || status > 599)
        return err_set(err, ERR_INVALID, "status must be 200 to 599");
    fault->kind = FAULT_STATUS;
    fault->status = (unsigned)status;
    fault->is_executed = json_get_bool(action, SLICE("executed"), false);
    if (!body)
        return OK;
    struct buf text;
    buf_init(&text, FAULT_BODY_MAX);
    fault->is_body_json = !json_is(body, JSON_STRING);
    if (fault->is_body_json)
        json_write(&text, body);
    else
        buf_append(&text, json_str(body));
    fault->body = arena_dup(arena, buf_slice(&text));
    bool is_ok = buf_is_ok(&text) && fault->body.ptr;
    buf_deinit(&text);
    return is_ok ? OK : err_set(err, ERR_LIMIT, "body is too long");
}

static int read_slow(const struct json *action, struct fault *fault, struct err *err)
{
    const struct json *slow = JSON_GET(action, "slow_body");
    int64_t bytes = json_get_i64(slow, SLICE("bytes"), 1);
    int64_t interval_ms = json_get_i64(slow, SLICE("interval_ms"), 100);
    if (bytes < 1 || interval_ms < 0)
        return err_set(err, ERR_INVALID, "slow_body needs bytes > 0 and interval_ms");
    fault->kind = FAULT_SLOW_BODY;
    fault->slow_bytes = (uint64_t)bytes;
    fault->slow_interval_ms = (uint64_t)interval_ms;
    return OK;
}

static int read_action(struct arena *arena, const struct json *action, struct fault *fault,
                       struct err *err)
{
    static const char names[] = "latency_ms status retry_after body executed reset slow_body "
                                "endless_body close_after_headers garbage hang hold";
    if (check_members(action, names, "action", err) != OK)
        return err->code;
    int64_t latency_ms = json_get_i64(action, SLICE("latency_ms"), 0);
    if (latency_ms < 0 || latency_ms > 3600000)
        return err_set(err, ERR_INVALID, "latency_ms must be 0 to 3600000");
    fault->latency_ms = (uint64_t)latency_ms;
    fault->is_held = json_get_bool(action, SLICE("hold"), false);
    fault->retry_after_s = json_get_i64(action, SLICE("retry_after"), -1);
    if (JSON_GET(action, "status"))
        return read_status(arena, action, fault, err);
    if (JSON_GET(action, "slow_body"))
        return read_slow(action, fault, err);
    fault->kind = find_kind(action);
    if (fault->kind == FAULT_NONE && (JSON_GET(action, "reset") || JSON_GET(action, "hang")))
        return err_set(err, ERR_INVALID, "reset and hang must be \"before\" or \"after\"");
    if (fault->kind == FAULT_NONE && !JSON_GET(action, "latency_ms") && !fault->is_held)
        return err_set(err, ERR_INVALID, "the action does nothing");
    return OK;
}

static int read_rule(struct arena *arena, const struct json *input, struct rule *rule,
                     struct err *err)
{
    const struct json *match = JSON_GET(input, "match");
    if (check_members(input, "match count skip action", "a rule", err) != OK ||
        (match && check_members(match, "method path_prefix token", "match", err) != OK))
        return err->code;
    rule->method = arena_dup(arena, json_get_str(match, SLICE("method")));
    rule->path_prefix = arena_dup(arena, json_get_str(match, SLICE("path_prefix")));
    rule->token = arena_dup(arena, json_get_str(match, SLICE("token")));
    rule->left = json_get_i64(input, SLICE("count"), -1);
    rule->skip = json_get_i64(input, SLICE("skip"), 0);
    return read_action(arena, JSON_GET(input, "action"), &rule->fault, err);
}

int faults_set(struct faults *faults, const struct json *document, struct err *err)
{
    const struct json *list = json_is(document, JSON_ARRAY) ? document
                                                            : JSON_GET(document, "rules");
    if (!json_is(list, JSON_ARRAY) || list->count > FAULT_RULES_MAX)
        return err_set(err, ERR_INVALID, "rules must be an array of at most %d", FAULT_RULES_MAX);
    struct arena arena;
    arena_init(&arena, 4 * 1024 * 1024);
    struct rule *rules = ARENA_ARRAY(&arena, struct rule, list->count + 1);
    int status = rules ? OK : err_set(err, ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; status == OK && i < list->count; i++) {
        status = read_rule(&arena, json_at(list, i), &rules[i], err);
        if (status != OK)
            err_prefix(err, "rule %u", i);
    }
    if (status == OK && arena.is_exhausted)
        status = err_set(err, ERR_NOMEM, "out of memory");
    if (status != OK) {
        arena_deinit(&arena);
        return status;
    }
    arena_deinit(&faults->arena);
    faults->arena = arena;
    faults->rules = rules;
    faults->count = list->count;
    faults->changes++;
    return OK;
}

static bool matches(const struct rule *rule, const struct provider_request *request)
{
    return (!rule->method.len || slice_eq(rule->method, request->method_text)) &&
           slice_starts_with(request->path, rule->path_prefix) &&
           (!rule->token.len || slice_eq(rule->token, request_bearer(request)));
}

const struct fault *faults_take(struct faults *faults, const struct provider_request *request)
{
    for (size_t i = 0; i < faults->count; i++) {
        struct rule *rule = &faults->rules[i];
        if (rule->left == 0 || !matches(rule, request))
            continue;
        if (rule->skip > 0) {
            rule->skip--;
            continue;
        }
        if (rule->left > 0)
            rule->left--;
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
