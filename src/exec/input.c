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

/* What a recipient or a place is called that the input does not name. */
static void add_known(struct vault_words *words, slice text)
{
    if (!slice_starts_with(text, SLICE("(")))
        (void)vault_words_add(words, text, VAULT_WORDS_MAX);
}

static void add_recipient(void *words, slice field, const struct recipient *recipient)
{
    (void)field;
    add_known(words, recipient->lead);
    add_known(words, recipient->address);
    add_known(words, recipient->tail);
}

/* The words by which the run is found. A list of words is limited: the beginnings of title and
 * summary have places of their own, then comes whom and what the call reaches, and a message may be
 * long. An input that is too large to be kept is not searched for words either. */
static slice make_words(struct exec *exec, bool has_input)
{
    enum { TITLE_WORDS = 6, SUMMARY_WORDS = 16 };
    struct arena *arena = &exec->op.arena;
    const struct json *input = exec->in.input;
    const struct exec_outcome *out = &exec->out;
    struct vault_words words;
    vault_words_init(&words, exec->service->config.ring, exec->in.account_id);
    slice title = vault_words_add(&words, out->display_title, TITLE_WORDS);
    slice summary = vault_words_add(&words, out->display_summary, SUMMARY_WORDS);
    if (has_input)
        recipient_each(exec->action, input, arena, add_recipient, &words);
    const struct json targets = has_input ? target_of(exec->action, input, NULL, arena)
                                          : json_array();
    for (uint32_t i = 0; i < targets.count; i++) {
        const struct json *target = &targets.as.items[i];
        add_known(&words, json_get_str(target, SLICE("id")));
        add_known(&words, json_get_str(target, SLICE("name")));
    }
    (void)vault_words_add(&words, summary, VAULT_WORDS_MAX);
    (void)vault_words_add(&words, title, VAULT_WORDS_MAX);
    (void)vault_words_add(&words, out->message, VAULT_WORDS_MAX);
    return vault_words_list(&words, arena);
}

static bool seal_input(struct exec *exec, struct uuid id, const struct kept_input *what,
                       struct execution_input *row)
{
    const struct exec_config *config = &exec->service->config;
    bool is_whole;
    if (!kept_input_seal(config->ring, exec->in.account_id, id, what,
                         kept_input_schema(exec->action), &exec->op.arena, row, &is_whole))
        return false;
    row->words = make_words(exec, is_whole);
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
