/*
 * Finds what the ids in a write's input mean, in words, for a person who is asked to confirm the
 * write (contrib/integrations/README.md "shows"). Up to three reads run at the same time during the
 * dry run, with its connection and the caller's rights. Each is an execution without a key or a
 * record, so it passes the connection's limits and its origin's circuit. A read that is slow, fails
 * or is not allowed gives no text, and its id is named as unread. The texts are data from outside,
 * and never part of what is sent.
 */
#include "base/encode.h"
#include "catalog/target.h"
#include "exec/internal.h"
#include "vault/key.h"

enum {
    READS_MS = 2000, /* for all reads together */
    OUTPUT_BYTES_MAX = 256 * 1024,
    TEXT_BYTES_MAX = 300,
    UNREAD_BYTES_MAX = 64 * 1024,
};

struct exec_shows {
    struct exec *exec;
    struct timer timer;
    /* NULL if the text needs no read, or if there is no text */
    struct exec *reads[CATALOG_SHOWS_MAX];
    slice json, unread_json, versions_json;
};

static void on_due(struct timer *timer)
{
    exec_shows_cancel(CONTAINER_OF(timer, struct exec_shows, timer)->exec);
}

void exec_shows_cancel(struct exec *exec)
{
    if (!exec->shows)
        return;
    timer_stop(&exec->shows->timer);
    for (size_t i = 0; i < CATALOG_SHOWS_MAX; i++)
        if (exec->shows->reads[i])
            exec_cancel(exec->shows->reads[i]);
}

slice exec_shows_json(const struct exec *exec)
{
    return exec->shows ? exec->shows->json : SLICE_NONE;
}

slice exec_shows_unread_json(const struct exec *exec)
{
    return exec->shows ? exec->shows->unread_json : SLICE_NONE;
}

slice exec_shows_versions_json(const struct exec *exec)
{
    return exec->shows ? exec->shows->versions_json : SLICE_NONE;
}

/* Returns the input of a read, or NULL if it cannot be made. It is a copy, because the templates
 * belong to the catalog, which may be replaced before a cancelled read has ended. */
static const struct json *make_input(struct exec *exec, const struct catalog_show *show,
                                     const struct json *root)
{
    struct arena *arena = &exec->op.arena;
    struct json input = json_object();
    struct expr_budget budget;
    expr_budget_init(&budget);
    for (size_t i = 0; i < show->input.count; i++) {
        const struct catalog_pair *pair = &show->input.items[i];
        struct json value;
        if (expr_template_eval(pair->value, root, EXPR_DROP_NULL_MEMBERS, &budget, arena, &value,
                               NULL) != OK)
            return NULL;
        if (value.type != JSON_NULL)
            json_object_set(arena, &input, pair->name, value);
    }
    return json_dup(arena, &input);
}

static struct exec *start_read(struct exec *exec, const struct catalog_show *show,
                               const struct json *root)
{
    struct exec_request read = {
        .account_id = exec->in.account_id,
        .by = exec->in.by,
        .scopes = exec->in.scopes,
        .policy = exec->in.policy,
        .user = exec->in.user,
        .is_confirmed = exec->in.is_confirmed,
        .refusal_hint = exec->in.refusal_hint,
        .integration_id = exec->in.integration_id,
        .action_id = arena_dup(&exec->op.arena, show->action_id),
        .input = make_input(exec, show, root),
        .connection_id = exec->connection.item ? exec->connection.item->id : 0,
        .is_recorded_by_caller = true,
        .is_part = true,
        .timeout_ms = READS_MS,
        .trace = exec->in.trace,
    };
    return read.input && read.action_id.ptr ? exec_start(exec->service, &read, &exec->op) : NULL;
}

enum op_result exec_step_show(struct op *op)
{
    struct exec *exec = exec_of(op);
    const struct catalog_action *action = exec->action;
    struct json root = json_object();
    ASSERT(exec->in.is_dry_run && action->show_count <= CATALOG_SHOWS_MAX && !exec->shows);
    exec->shows = ARENA_NEW(&op->arena, struct exec_shows);
    if (!exec->shows)
        return exec_end_dry_run(exec);
    exec->shows->exec = exec;
    timer_init(&exec->shows->timer, op->loop, on_due);
    json_object_set(&op->arena, &root, SLICE("input"), *exec->in.input);
    for (unsigned i = 0; i < action->show_count; i++) {
        const struct catalog_show *show = &action->shows[i];
        if (show->action_id.len > 0 && !exec_hides(exec, show->action_id) &&
            target_has_show(show, exec->in.input, &op->arena))
            exec->shows->reads[i] = start_read(exec, show, &root);
    }
    if (op->holds == 0)
        return OP_NEXT;
    uint64_t left_ms = exec_left_ms(exec);
    timer_start_in_ms(&exec->shows->timer, left_ms < READS_MS ? left_ms : READS_MS);
    op_keep_children(op);
    return OP_WAIT;
}

/* Returns the output of a read; NULL if there is none, or if it is too large for a text. */
static const struct json *read_output(const struct exec *read, struct arena *arena)
{
    const struct exec_outcome *out = read ? exec_outcome_of(read) : NULL;
    if (!out || out->reason != EXEC_SUCCEEDED || out->output_json.len > OUTPUT_BYTES_MAX)
        return NULL;
    return json_parse(arena, out->output_json, &json_limits_provider, NULL);
}

/* Whether the read may succeed if it is made again: not if it was refused. A read that finds the
 * connection lost has marked it, so what comes next is refused for that reason. */
static bool may_read_later(const struct exec *read)
{
    const struct exec_outcome *out = read ? exec_outcome_of(read) : NULL;
    if (!out)
        return false;
    return out->reason >= EXEC_UNAVAILABLE || exec_outcome_is_retryable(out) ||
           out->reason == EXEC_REAUTH_REQUIRED || out->reason == EXEC_KEY_REFUSED ||
           out->reason == EXEC_NOT_CONNECTED;
}

/* Makes a text of one line without invisible characters; SLICE_NONE if it says no more than the
 * id. */
static slice make_text(const struct catalog_show *show, const struct json *root,
                       struct arena *arena)
{
    struct expr_budget budget;
    struct json value;
    struct buf text;
    expr_budget_init(&budget);
    if (expr_template_eval(show->text, root, 0, &budget, arena, &value, NULL) != OK ||
        value.type != JSON_STRING)
        return SLICE_NONE;
    slice whole = slice_trim(json_str(&value)), part = slice_first_utf8(whole, TEXT_BYTES_MAX);
    if (whole.len == 0)
        return SLICE_NONE;
    buf_init(&text, 16 * TEXT_BYTES_MAX);
    encode_visible(&text, part, SLICE_NONE);
    buf_append_cstr(&text, part.len < whole.len ? "..." : "");
    return arena_take(arena, &text);
}

/* Returns the digest of what may not change besides the text; SLICE_NONE: there is nothing. */
static slice make_version(const struct catalog_show *show, const struct json *root,
                          struct arena *arena)
{
    uint8_t hash[32];
    char digits[2 * sizeof(hash) + 1];
    struct expr_budget budget;
    struct json value;
    expr_budget_init(&budget);
    if (!show->version ||
        expr_template_eval(show->version, root, 0, &budget, arena, &value, NULL) != OK ||
        value.type == JSON_NULL)
        return SLICE_NONE;
    slice text = json_text_of(&value, arena, OUTPUT_BYTES_MAX);
    if (!text.ptr)
        return SLICE_NONE;
    vault_sha256(text, hash);
    encode_hex_in(digits, sizeof(digits), slice_of((const char *)hash, sizeof(hash)));
    return arena_dup(arena, slice_of(digits, 2 * sizeof(hash)));
}

enum op_result exec_step_take_texts(struct op *op)
{
    struct exec *exec = exec_of(op);
    struct json shows = json_object(), versions = json_object();
    timer_stop(&exec->shows->timer);
    for (unsigned i = 0; i < exec->action->show_count; i++) {
        const struct catalog_show *show = &exec->action->shows[i];
        const struct json *output = read_output(exec->shows->reads[i], &op->arena);
        struct json root = json_object();
        exec->out.is_unread_passing |= may_read_later(exec->shows->reads[i]);
        if (!target_has_show(show, exec->in.input, &op->arena) ||
            (show->action_id.len > 0 && !output))
            continue;
        json_object_set(&op->arena, &root, SLICE("input"), *exec->in.input);
        if (output)
            json_object_set(&op->arena, &root, SLICE("output"), *output);
        slice text = make_text(show, &root, &op->arena);
        slice version = text.ptr ? make_version(show, &root, &op->arena) : SLICE_NONE;
        if (text.ptr)
            json_object_set(&op->arena, &shows, show->member, json_string(text));
        if (version.ptr)
            json_object_set(&op->arena, &versions, show->member, json_string(version));
    }
    if (shows.count > 0)
        exec->shows->json =
            json_text_of(&shows, &op->arena, CATALOG_SHOWS_MAX * 32 * TEXT_BYTES_MAX);
    if (versions.count > 0)
        exec->shows->versions_json = json_text_of(&versions, &op->arena, UNREAD_BYTES_MAX);
    struct json unread = target_unread(exec->action, exec->in.input, &shows, &op->arena);
    if (unread.count > 0)
        exec->shows->unread_json = json_text_of(&unread, &op->arena, UNREAD_BYTES_MAX);
    return exec_end_dry_run(exec);
}
