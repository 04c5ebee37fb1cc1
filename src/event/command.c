/*
 * A change of an endpoint; see command.h. An existing row is loaded, changed here and written back
 * if it still has its revision; otherwise it is loaded again.
 */
#include "event/command.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/internal.h"

enum { COMMAND_ARENA_BYTES_MAX = 128 * 1024, TRIES_MAX = 10, KINDS_BYTES_MAX = 1024 };

enum { BEGIN, LOAD, LOADED, CHANGE, CHANGED };

OP_OF(command_of, webhook_command)

/* ---- what the endpoint becomes ---- */

/* Writes the chosen kinds in the order of the list, each once. */
static int set_kinds(struct webhook_command *command)
{
    struct buf words;
    command->webhook.events = SLICE_NONE;
    if (command->in.kinds == 0)
        return OK;
    buf_init(&words, KINDS_BYTES_MAX);
    for (unsigned kind = 0; kind < EVENT_KIND_COUNT; kind++) {
        if (!(command->in.kinds & (UINT32_C(1) << kind)))
            continue;
        buf_append(&words, words.len > 0 ? SLICE(" ") : SLICE(""));
        buf_append(&words, event_kind_name((enum event_kind)kind));
    }
    command->webhook.events = arena_take(&command->op.arena, &words);
    return command->webhook.events.ptr ? OK : ERR_NOMEM;
}

/* Checks what can be wrong in any face; the faces have only checked the types of their members. */
static int check_texts(struct webhook_command *command)
{
    const struct webhook_command_request *in = &command->in;
    struct err *err = &command->err;
    if (in->has_url && event_url_check(command->service, in->url, in->public_url, err) != OK)
        return ERR_SYNTAX;
    if (in->has_description && in->description.len > 0 &&
        !slice_is_name(in->description, WEBHOOK_DESCRIPTION_MAX)) {
        (void)err_set(err, ERR_SYNTAX,
                      "description must be a string of at most %d characters on one line",
                      WEBHOOK_DESCRIPTION_MAX);
        return ERR_SYNTAX;
    }
    return OK;
}

/* Sets the members that the request names. */
static int merge_change(struct webhook_command *command)
{
    const struct webhook_command_request *in = &command->in;
    struct webhook *webhook = &command->webhook;
    if (in->has_url) {
        /* failures of another URL say nothing about this one */
        command->change.is_forgiven = !slice_eq(webhook->url, in->url);
        webhook->url = in->url;
    }
    if (in->has_description)
        webhook->description = in->description;
    if (in->has_kinds && set_kinds(command) != OK)
        return ERR_NOMEM;
    if (!in->has_switch)
        return OK;
    /* One that is switched on again, or off again, stays as it is; the switch decides the kind of
     * the event even if other members change, too. */
    if (in->is_on != (webhook->off_at == 0))
        command->change.kind = in->is_on ? AUDIT_WEBHOOK_ENABLED : AUDIT_WEBHOOK_DISABLED;
    command->change.is_forgiven |= in->is_on;
    if (in->is_on) {
        webhook->off_at = 0;
        webhook->off_reason = SLICE_NONE;
    } else if (webhook->off_at == 0) {
        webhook->off_at = clock_shared_us();
        webhook->off_reason = SLICE("requested");
    }
    return OK;
}

/* ---- secrets ---- */

/* Seals a secret for the row, whose key id becomes that of the present master key. *sealed is
 * borrowed from out. */
static int seal_into(struct webhook_command *command, slice secret, struct buf *out, slice *sealed)
{
    const struct vault_ring *ring = command->service->config.ring;
    struct vault_binding binding = event_secret_binding(&command->webhook);
    buf_clear(out);
    int status = vault_seal(ring, &binding, secret, out);
    *sealed = buf_slice(out);
    command->webhook.key_id = vault_ring_key_id(ring);
    return status;
}

/* Draws a secret, and seals it for the row. */
static int draw_secret(struct webhook_command *command)
{
    uint8_t secret[EVENT_SECRET_LEN];
    struct buf text;
    random_kernel(secret, sizeof(secret));
    buf_init(&text, EVENT_SECRET_TEXT_MAX + 1);
    event_secret_format(&text, slice_of(secret, sizeof(secret)));
    int status = seal_into(command, slice_of(secret, sizeof(secret)), &command->sealed,
                           &command->webhook.sealed);
    if (status == OK && !buf_is_ok(&text))
        status = ERR_NOMEM;
    if (status == OK) {
        memcpy(command->secret, text.ptr, text.len);
        command->secret[text.len] = '\0';
    }
    mem_wipe(secret, sizeof(secret));
    mem_wipe(text.ptr, text.cap);
    buf_deinit(&text);
    return status;
}

/* The old secret is sealed again with the key that seals the new one: a row has one key id. */
static int roll_secret(struct webhook_command *command)
{
    struct webhook *webhook = &command->webhook;
    struct vault_binding binding = event_secret_binding(webhook);
    struct secret *old;
    slice old_sealed = webhook->sealed;
    webhook->old_sealed = SLICE_NONE;
    webhook->old_until = 0;
    if (command->in.overlap_s > 0) {
        if (vault_open(command->service->config.ring, &binding, webhook->key_id, old_sealed, &old,
                       &command->err) != OK)
            return ERR_CRYPTO;
        int status =
            seal_into(command, secret_reveal(old), &command->old_sealed, &webhook->old_sealed);
        secret_unref(old);
        webhook->old_until = clock_shared_us() + command->in.overlap_s * 1000000;
        if (status != OK)
            return status;
    }
    return draw_secret(command);
}

/* ---- steps ---- */

static enum op_result stop_with(struct webhook_command *command, int status)
{
    command->status = status;
    return OP_DONE;
}

/* A new endpoint is made of the request alone, and a deletion needs no row. */
static enum op_result step_begin(struct op *op)
{
    struct webhook_command *command = command_of(op);
    const struct webhook_command_request *in = &command->in;
    struct webhook *webhook = &command->webhook;
    *webhook = (struct webhook){.account_id = in->account_id, .id = in->id};
    int status = check_texts(command);
    if (status != OK)
        return stop_with(command, status);
    if (in->kind == WEBHOOK_DELETE)
        return op_jump(op, CHANGE);
    if (in->kind != WEBHOOK_CREATE)
        return OP_NEXT;
    ASSERT(in->has_url && in->has_description && in->has_kinds);
    webhook->id = uuid_v7();
    webhook->api_key = in->api_key;
    webhook->created_at = clock_shared_us();
    webhook->rev = 1;
    status = merge_change(command);
    command->change.kind = AUDIT_WEBHOOK_CREATED;
    if (status == OK)
        status = draw_secret(command);
    return status == OK ? op_jump(op, CHANGE) : stop_with(command, status);
}

static enum op_result step_load(struct op *op)
{
    struct webhook_command *command = command_of(op);
    store_webhook_get(command->service->config.pool, &command->query, op, command->in.account_id,
                      command->in.id);
    return OP_WAIT;
}

/* This may run several times, so it sets all that it decides. */
static enum op_result step_loaded(struct op *op)
{
    struct webhook_command *command = command_of(op);
    bool is_roll = command->in.kind == WEBHOOK_ROLL;
    int status = store_webhook_get_result(&command->query, &command->webhook);
    command->change.kind = is_roll ? AUDIT_WEBHOOK_ROLLED : AUDIT_WEBHOOK_CHANGED;
    command->change.is_forgiven = false;
    if (status == OK && command->webhook.old_until <= clock_shared_us()) {
        command->webhook.old_sealed = SLICE_NONE; /* its overlap has ended */
        command->webhook.old_until = 0;
    }
    if (status == OK && command->in.rev && command->webhook.rev != command->in.rev)
        return stop_with(command,
                         err_set(&command->err, ERR_LIMIT,
                                 "the webhook has the rev %lld, not %lld: it was changed, or "
                                 "its secret was rolled, since it was read",
                                 (long long)command->webhook.rev, (long long)command->in.rev));
    if (status == OK)
        status = is_roll ? roll_secret(command) : merge_change(command);
    return status == OK ? OP_NEXT : stop_with(command, status);
}

static enum op_result step_change(struct op *op)
{
    struct webhook_command *command = command_of(op);
    struct pg_pool *pool = command->service->config.pool;
    command->change.webhook = command->webhook;
    if (command->in.kind == WEBHOOK_CREATE)
        store_webhook_create(pool, &command->query, op, &command->change);
    else if (command->in.kind == WEBHOOK_DELETE)
        store_webhook_delete(pool, &command->query, op, &command->change);
    else
        store_webhook_update(pool, &command->query, op, &command->change);
    return OP_WAIT;
}

/* Another change came between: the request is applied to the row as it is now. */
static enum op_result step_changed(struct op *op)
{
    struct webhook_command *command = command_of(op);
    enum webhook_changed changed;
    if (command->in.kind == WEBHOOK_DELETE)
        return stop_with(command, store_hit_result(&command->query));
    int status = store_webhook_changed_result(&command->query, &changed);
    if (status != OK)
        return stop_with(command, status);
    if (changed == WEBHOOK_STALE && ++command->tries < TRIES_MAX)
        return op_jump(op, LOAD);
    if (changed == WEBHOOK_STALE)
        return stop_with(command, ERR_BUSY);
    if (changed != WEBHOOK_CHANGED)
        return stop_with(
            command,
            changed == WEBHOOK_TWICE
                ? err_set(&command->err, ERR_LIMIT, "another webhook of the account has this url")
                : err_set(&command->err, ERR_LIMIT,
                          "the account has the maximum of %d webhooks: delete one first",
                          WEBHOOKS_MAX));
    if (command->in.kind != WEBHOOK_CREATE)
        command->webhook.rev++;
    if (command->change.is_forgiven)
        command->webhook.failing_since = command->webhook.failures = 0;
    return stop_with(command, OK);
}

static void on_end(struct op *op, enum op_end end)
{
    struct webhook_command *command = command_of(op);
    (void)end;
    buf_deinit(&command->sealed);
    buf_deinit(&command->old_sealed);
    /* callers read the row later, and these were in the buffers */
    command->webhook.sealed = command->webhook.old_sealed = SLICE_NONE;
}

static const struct op_step steps[] = {
    [BEGIN] = {"begin", step_begin, OP_TO(CHANGE)},
    [LOAD] = {"load", step_load, 0},
    [LOADED] = {"loaded", step_loaded, 0},
    [CHANGE] = {"change", step_change, 0},
    [CHANGED] = {"changed", step_changed, OP_TO(LOAD)},
};
static const struct op_class command_class = {
    .name = "webhook_command",
    OP_STEPS(steps),
    .on_end = on_end,
};

void webhook_command_start(struct event_service *service, struct webhook_command *command,
                           const struct webhook_command_request *request, struct op *parent)
{
    ASSERT(parent && request->by.actor.len > 0 && request->overlap_s >= 0 &&
           request->overlap_s <= WEBHOOK_OVERLAP_S_MAX);
    *command = (struct webhook_command){.status = ERR_CLOSED, .service = service, .in = *request};
    command->change.by = request->by;
    command->change.kind = AUDIT_WEBHOOK_DELETED;
    buf_init(&command->sealed, EVENT_SECRET_LEN + VAULT_SEAL_OVERHEAD);
    buf_init(&command->old_sealed, EVENT_SECRET_LEN + VAULT_SEAL_OVERHEAD);
    op_start(&command->op, &command_class, parent->loop, parent, COMMAND_ARENA_BYTES_MAX);
}
