/*
 * Reads the meaning of failed replies: a manifest's `errors`, and `limits` with the replies that
 * say "too fast" (contrib/integrations/README.md). Rules shared by several apps of one vendor form
 * a part, which is written once as data (contrib/integrations/parts) and named in the list.
 */

#include "base/embed.h"
#include "catalog/manifest.h"

enum {
    TIMEOUT_MS_MAX = 600000,
    RESPONSE_BYTES_MAX = 256 * 1024 * 1024,
    RETRY_AFTER_S_MAX = 24 * 3600,
};

/* Whether the code is about a provider's reply. A manifest cannot use the codes of sluice's own
 * checks (confirmation, limits of the account). */
static bool is_error_code(slice code)
{
    return slice_has_word(SLICE("unauthorized forbidden reauth_required validation_error "
                                "rate_limited timeout execution_failed unsupported_operation"),
                          code);
}

static enum catalog_rule_outcome read_outcome(struct reader *r)
{
    static const char *const names[] = {"not_done", "partly", "unknown", "in_progress", NULL};
    return (enum catalog_rule_outcome)(reader_choice(r, "outcome", names, -1) + 1);
}

static void read_error_rule(struct reader *parent, struct reader_path *path,
                            const struct json *object, uint32_t at, void *out)
{
    struct catalog_error_rules *rules = out;
    struct reader r;
    ASSERT(rules->items && rules->count < CATALOG_RULES_MAX);
    struct catalog_error_rule *rule = &rules->items[rules->count];
    if (!reader_init(&r, parent, path, object))
        return;
    rule->source_index = at;
    /* The rules of a part have the index of the text that names it; lint does not warn about their
     * order. */
    rule->is_of_part = json_get(parent->object, SLICE("errors"))->as.items[at].type == JSON_STRING;
    rule->when = reader_expr(&r, "when");
    rule->on_success = reader_bool(&r, "on_success", false);
    rule->missing_scopes = reader_bool(&r, "missing_scopes", false);
    rule->outcome = read_outcome(&r);
    rule->error_code = reader_text(&r, "error_code");
    rule->message = reader_template(&r, "message");
    rule->hint = reader_template(&r, "hint");
    reader_finish(&r);
    if (!json_get(object, SLICE("when")))
        reader_error(&r, NULL, "member \"when\" is missing");
    if (rule->error_code.len > 0 && !is_error_code(rule->error_code))
        reader_error(&r, "error_code", "\"%.*s\" is not an error_code that a reply can have",
                     SLICE_ARG(rule->error_code));
    if (rule->missing_scopes && !slice_eq_cstr(rule->error_code, "forbidden"))
        reader_error(&r, "missing_scopes", "is allowed only with the error_code \"forbidden\"");
    if (rule->outcome > RULE_NOT_DONE && rule->error_code.len > 0 &&
        slice_has_word(SLICE("unauthorized reauth_required rate_limited"), rule->error_code))
        reader_error(&r, "outcome",
                     "must be \"not_done\" with the error_code \"%.*s\", after which callers send "
                     "the same request again",
                     SLICE_ARG(rule->error_code));
    if (rule->when)
        rules->count++;
}

/* ---- lists of rules, in which a text names the rules of a part ---- */

typedef void (*rule_fn)(struct reader *parent, struct reader_path *path, const struct json *object,
                        uint32_t at, void *out);

static const struct json *find_part(struct reader *r, slice name, const char *member)
{
    /* Parts are built in and were checked by the build, so duplicate keys are not searched for. */
    static const struct json_limits limits = {.depth_max = 32};
    for (size_t i = 0; i < embed_parts_count; i++) {
        slice file = slice_cstr(embed_parts[i].name);
        if (!slice_eq(slice_first(file, file.len - strlen(".json")), name))
            continue;
        slice text = slice_of(embed_parts[i].data, embed_parts[i].len);
        const struct json *part = json_parse(r->arena, text, &limits, NULL);
        const struct json *rules = json_get(part, slice_cstr(member));
        ASSERT(!rules || rules->type == JSON_ARRAY); /* parts are compiled in */
        return rules;
    }
    return NULL;
}

static void report_no_part(struct reader *r, struct reader_path *path, slice name)
{
    struct reader at = *r;
    struct buf names;
    buf_init(&names, 4096);
    for (size_t i = 0; i < embed_parts_count; i++) {
        slice file = slice_cstr(embed_parts[i].name);
        buf_printf(&names, "%s%.*s", i ? ", " : "",
                   SLICE_ARG(slice_first(file, file.len - strlen(".json"))));
    }
    at.path = path;
    reader_error(&at, NULL, "there is no part \"%.*s\"; the parts are %.*s", SLICE_ARG(name),
                 SLICE_ARG(buf_slice(&names)));
    buf_deinit(&names);
}

/* Calls `read` for each rule of the array at `name`, including those of named parts, for at most
 * CATALOG_RULES_MAX in total, because each error reply is matched against every rule. */
static void read_rules(struct reader *r, const char *name, rule_fn read, void *out)
{
    const struct json *array = reader_member(r, name);
    uint32_t count = 0;
    if (!array)
        return;
    if (array->type != JSON_ARRAY) {
        reader_error(r, name, "must be an array of at most %d rules", CATALOG_RULES_MAX);
        return;
    }
    for (uint32_t i = 0; i < array->count; i++) {
        const struct json *item = &array->as.items[i];
        struct reader_path path = {r->path, slice_cstr(name), i};
        bool is_part = item->type == JSON_STRING;
        const struct json *part = is_part ? find_part(r, json_str(item), name) : NULL;
        uint32_t own = is_part ? (part ? part->count : 0) : 1;
        if (is_part && !part)
            report_no_part(r, &path, json_str(item));
        for (uint32_t j = 0; j < own && ++count <= CATALOG_RULES_MAX; j++)
            read(r, &path, part ? &part->as.items[j] : item, i, out);
    }
    if (count > CATALOG_RULES_MAX)
        reader_error(r, name, "must be an array of at most %d rules", CATALOG_RULES_MAX);
}

/* Returns an upper limit for the array's size: one for each rule in the manifest, and
 * CATALOG_RULES_MAX for each part, which is not parsed yet. */
static size_t rule_room(struct reader *r, const char *name)
{
    const struct json *array = json_get(r->object, slice_cstr(name));
    size_t room = 0;
    for (uint32_t i = 0; json_is(array, JSON_ARRAY) && i < array->count; i++)
        room += array->as.items[i].type == JSON_STRING ? CATALOG_RULES_MAX : 1;
    return room < CATALOG_RULES_MAX ? room : CATALOG_RULES_MAX;
}

/* ---- errors ---- */

struct catalog_error_rules manifest_read_errors(struct reader *r, const char *name)
{
    struct catalog_error_rules rules = {NULL, 0};
    size_t room = rule_room(r, name);
    if (room > 0)
        rules.items = ARENA_ARRAY(r->arena, struct catalog_error_rule, room);
    if (rules.items || room == 0)
        read_rules(r, name, read_error_rule, &rules);
    return rules;
}

/* For every vendor, 401, 403 and 429 mean a refusal before anything was done. They also mark the
 * credential and make callers wait. */
const struct json *manifest_read_not_done(struct reader *r)
{
    static const char *const name = "not_done_statuses";
    const struct json *array = reader_member(r, name);
    bool is_good = !array || array->type == JSON_ARRAY;
    unsigned needed = 0;
    for (uint32_t i = 0; array && is_good && i < array->count; i++) {
        int64_t status = 0;
        is_good = json_to_i64(&array->as.items[i], &status) && status >= 400 && status <= 499;
        needed += status == 401 || status == 403 || status == 429;
    }
    if (!is_good || (array && needed != 3)) {
        reader_error(r, name,
                     "must be an array of statuses from 400 to 499, with 401, 403 and 429 "
                     "among them");
        return NULL;
    }
    return array;
}

/* ---- limits ---- */

static void read_rate_rule(struct reader *parent, struct reader_path *path,
                           const struct json *object, uint32_t at, void *out)
{
    struct catalog_limits *limits = out;
    struct reader rule;
    (void)at;
    ASSERT(limits->rate_rules && limits->rate_rule_count < CATALOG_RULES_MAX);
    if (!reader_init(&rule, parent, path, object))
        return;
    struct catalog_rate_rule *read = &limits->rate_rules[limits->rate_rule_count];
    read->when = reader_expr(&rule, "when");
    read->retry_after = reader_expr(&rule, "retry_after");
    reader_finish(&rule);
    if (read->when)
        limits->rate_rule_count++;
    else
        reader_error(&rule, NULL, "member \"when\" is missing or invalid");
}

static void read_rate_rules(struct reader *r, struct catalog_limits *limits)
{
    size_t room = rule_room(r, "rate_limited");
    if (room > 0)
        limits->rate_rules = ARENA_ARRAY(r->arena, struct catalog_rate_rule, room);
    if (limits->rate_rules || room == 0)
        read_rules(r, "rate_limited", read_rate_rule, limits);
}

/* Sets the rule of RFC 6585 section 4 (429) and RFC 9110 section 10.2.3 (Retry-After), for a
 * manifest that defines no rules. */
static void default_rate_rules(struct reader *r, struct catalog_limits *limits)
{
    struct catalog_rate_rule *rule = ARENA_NEW(r->arena, struct catalog_rate_rule);
    if (!rule)
        return;
    rule->when = expr_compile(r->arena, SLICE("status == `429`"), NULL);
    rule->retry_after = expr_compile(r->arena, SLICE("headers.\"retry-after\""), NULL);
    limits->rate_rules = rule;
    limits->rate_rule_count = rule->when && rule->retry_after ? 1 : 0;
}

static void read_quota(struct reader *parent, struct catalog_limits *limits)
{
    struct reader r;
    if (!reader_enter(&r, parent, "quota"))
        return;
    limits->quota_remaining = reader_expr(&r, "remaining");
    limits->quota_reset = reader_expr(&r, "reset");
    reader_finish(&r);
    /* Remaining calls without the time of their reset do not show when to continue. */
    if (!json_get(r.object, SLICE("remaining")) || !json_get(r.object, SLICE("reset")))
        reader_error(&r, NULL, "quota needs both \"remaining\" and \"reset\"");
}

void manifest_read_limits(struct reader *parent, struct catalog_limits *limits)
{
    static const char *const scopes[] = {"connection", "action", NULL};
    struct reader r;
    if (reader_enter(&r, parent, "limits")) {
        limits->is_per_action = reader_choice(&r, "per", scopes, 0) == 1;
        limits->rate_per_s = reader_number(&r, "rate_per_s", 100000);
        limits->burst = (unsigned)reader_count(&r, "burst", 1000000);
        limits->in_flight_max = (unsigned)reader_count(&r, "in_flight_max", 10000);
        limits->connect_timeout_ms =
            (unsigned)reader_count(&r, "connect_timeout_ms", TIMEOUT_MS_MAX);
        limits->first_byte_timeout_ms =
            (unsigned)reader_count(&r, "first_byte_timeout_ms", TIMEOUT_MS_MAX);
        limits->total_timeout_ms = (unsigned)reader_count(&r, "total_timeout_ms", TIMEOUT_MS_MAX);
        limits->response_bytes_max = reader_count(&r, "response_bytes_max", RESPONSE_BYTES_MAX);
        limits->retry_after_s = (unsigned)reader_count(&r, "retry_after_s", RETRY_AFTER_S_MAX);
        read_rate_rules(&r, limits);
        read_quota(&r, limits);
        reader_finish(&r);
        if (limits->burst > 0 && limits->rate_per_s <= 0)
            reader_error(&r, "burst", "has no effect without \"rate_per_s\"");
    }
    /* This is outside the block above, because an integration without "limits" has the default
     * rule, too. */
    if (limits->rate_rule_count == 0)
        default_rate_rules(parent, limits);
}
