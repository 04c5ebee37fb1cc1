/*
 * Which inputs are kept: those of writes, and of runs that failed or were blocked. A successful
 * read keeps none, and does nothing here. A run that is recorded by its caller has its input there.
 */
#include "base/clock.h"
#include "call/kept_input.h"
#include "catalog/recipient.h"
#include "catalog/target.h"
#include "exec/internal.h"
#include "vault/words.h"

/* Inputs of blocked runs that may wait for the database. Beyond that, events are stored without. */
#define BLOCKED_INPUT_BYTES_MAX ((size_t)16 * 1024 * 1024)

static void add_recipient(void *words, slice field, const struct recipient *recipient)
{
    (void)field;
    vault_words_add(words, recipient->lead);
    vault_words_add(words, recipient->address);
    vault_words_add(words, recipient->tail);
}

/* The words by which the run is found. Whom and what a call reaches comes first: a list of words is
 * limited, and a message may be long. */
static slice make_words(struct exec *exec)
{
    struct arena *arena = &exec->op.arena;
    const struct json *input = exec->in.input;
    struct vault_words words;
    vault_words_init(&words, exec->service->config.ring, exec->in.account_id);
    recipient_each(exec->action, input, arena, add_recipient, &words);
    const struct json targets = target_of(exec->action, input, NULL, arena);
    for (uint32_t i = 0; i < targets.count; i++) {
        const struct json *target = &targets.as.items[i];
        vault_words_add(&words, json_get_str(target, SLICE("id")));
        vault_words_add(&words, json_get_str(target, SLICE("name")));
    }
    vault_words_add(&words, exec->out.display_summary);
    vault_words_add(&words, exec->out.display_title);
    vault_words_add(&words, exec->out.message);
    return vault_words_list(&words, arena);
}

static bool seal_input(struct exec *exec, struct uuid id, const struct kept_input *what,
                       struct execution_input *row)
{
    const struct exec_config *config = &exec->service->config;
    if (!kept_input_seal(config->ring, exec->in.account_id, id, what, exec->action->input_schema,
                         &exec->op.arena, row))
        return false;
    row->words = make_words(exec);
    row->expires_at = clock_shared_us() + (int64_t)config->input_days * 86400 * 1000000;
    return true;
}

void exec_input_keep(struct exec *exec, struct execution *row)
{
    const struct kept_input what = {.input = exec->in.input};
    bool is_kept = exec->action->level != LEVEL_READ || !row->is_succeeded;
    /* The step is entered again for each attempt to record. */
    if (exec->service->config.input_days > 0 && is_kept && !exec->record.is_input_made &&
        seal_input(exec, row->id, &what, &exec->record.input))
        exec->record.is_input_made = true;
    row->input = exec->record.input;
}

void exec_input_keep_blocked(struct exec *exec, struct audit_event *event)
{
    const struct exec_service *service = exec->service;
    const struct kept_input what = {
        .input = exec->in.input,
        .connection_id = exec->in.connection_id,
        .message = exec->out.message,
        .hint = exec->out.hint,
    };
    /* Without its action nothing says which members are secret. The inputs of users are not among
     * those that housekeeping counts (store/quota.h). */
    if (service->config.input_days > 0 && exec->in.input && exec->action &&
        uuid_is_nil(exec->in.by.parent_id) &&
        service->blocked_input_bytes < BLOCKED_INPUT_BYTES_MAX)
        (void)seal_input(exec, event->id, &what, &event->input);
}
