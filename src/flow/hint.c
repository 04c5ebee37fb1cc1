/*
 * Hints of failed steps; see hint.h.
 *
 * If the reason decides what to do, there is a sentence for flows. All other hints (from a
 * manifest, or about a schema) are the execution's own, reworded for a flow: they are more specific
 * than any general sentence.
 */
#include "flow/hint.h"

enum { HINT_BYTES_MAX = 64 * 1024 };

slice flow_hint_unknown(void)
{
    return SLICE("The outcome is unknown: the write may or may not have happened. Check first: "
                 "resume makes the call again.");
}

slice flow_hint_own_approval(void)
{
    return SLICE("Nothing was done. The key that started the flow approved the call, or one that "
                 "counts as it, which does not satisfy a policy that holds the call. Start the "
                 "flow again and let another key approve it, or resume it once the policy allows "
                 "the call.");
}

/* Returns the sentence for flows; NULL if the execution's own hint is used. */
static const char *reason_words(enum exec_reason reason)
{
    switch (reason) {
    case EXEC_INTEGRATION_UNKNOWN:
    case EXEC_ACTION_UNKNOWN:
        return "Nothing was done. The template names an action that this server does not have. "
               "Resume the flow once its operator has added the action.";
    case EXEC_CONFIRMATION_MISSING:
        return "Nothing was done. The template does not confirm this call, so resume does not "
               "help. Start a flow with a template that confirms it.";
    case EXEC_POLICY_DENIED:
        return "Nothing was done. The policy of the API key that started the flow decides. Resume "
               "the flow once the policy allows the call.";
    case EXEC_NOT_CONNECTED:
        return "Nothing was done. Connect the app, then resume the flow.";
    case EXEC_CONNECTION_UNKNOWN:
        return "Nothing was done. Start a new flow with one of the account's connections to the "
               "app. Resume would name the same one again.";
    case EXEC_REAUTH_REQUIRED:
    case EXEC_KEY_REFUSED:
        return "Nothing was done. Reconnect the app, then resume the flow.";
    case EXEC_CONNECTION_AMBIGUOUS:
        return "Nothing was done. Make one of the app's connections the default one, then resume "
               "the flow.";
    case EXEC_OWN_RATE_LIMIT:
    case EXEC_PROVIDER_RATE_LIMITED:
        return "Nothing was done. Wait as many seconds as retry_after says, then resume the flow.";
    case EXEC_PROVIDER_UNSUPPORTED:
        return "Nothing was done. The app does not offer this, so resume does not help. The "
               "template needs another action.";
    case EXEC_UNAVAILABLE:
    case EXEC_STILL_RUNNING:
        return "Nothing was sent. Resume the flow.";
    default:
        return NULL;
    }
}

/* The same for a held call (exec/hold.h), which is not of a template that can be started with
 * another input: what has to be different is sent as another request. */
static const char *held_words(enum exec_reason reason)
{
    switch (reason) {
    case EXEC_INTEGRATION_UNKNOWN:
    case EXEC_ACTION_UNKNOWN:
        return "Nothing was done. This server does not have the action any more. Resume the flow "
               "once its operator has added it.";
    case EXEC_POLICY_DENIED:
        return "Nothing was done. The policy of the API key that asked decides again before the "
               "call. Resume the flow once the policy allows it.";
    case EXEC_CONNECTION_UNKNOWN:
        return "Nothing was done. Send the request again with another connection and a new "
               "idempotency_key. Resume would use the same connection.";
    case EXEC_PROVIDER_UNSUPPORTED:
        return "Nothing was done. The app does not offer this, so resume does not help.";
    default:
        return reason_words(reason);
    }
}

/* Phrases and their replacements; longer phrases come first. */
static const struct {
    const char *said, *meant;
} phrases[] = {
    {"Do not send it again unchanged", "Resume does not help"},
    {"Do not repeat it unchanged", "Resume does not help"},
    {"send the same request again", "resume the flow"},
    {"Sending it again", "Resuming the flow"},
    {"Run the action again", "Resume the flow"},
    {"trying again is safe", "resuming the flow is safe"},
    {"try again", "resume the flow"},
    {"Try again", "Resume the flow"},
    {"Retry-After", "retry_after"},
};

/* A sentence with one of these words is about something that flows do not have. */
static const char *const foreign[] = {"idempotency", "connectionId", "GET /", "POST /"};

static void put_words(struct buf *out, slice sentence)
{
    while (sentence.len > 0) {
        size_t i = 0;
        while (i < ARRAY_LEN(phrases) && !slice_starts_with(sentence, slice_cstr(phrases[i].said)))
            i++;
        bool is_found = i < ARRAY_LEN(phrases);
        if (is_found)
            buf_append_cstr(out, phrases[i].meant);
        else
            buf_append_char(out, sentence.ptr[0]);
        sentence = slice_from(sentence, is_found ? strlen(phrases[i].said) : 1);
    }
}

static bool is_foreign(slice sentence)
{
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        if (slice_find(sentence, slice_cstr(foreign[i])) >= 0)
            return true;
    return false;
}

/* Takes the first sentence, which ends with a full stop and a space, or with the hint. */
static slice next_sentence(slice *hint)
{
    ptrdiff_t stop = slice_find(*hint, SLICE(". "));
    slice sentence = stop < 0 ? *hint : slice_of(hint->ptr, (size_t)stop + 1);
    *hint = slice_from(*hint, stop < 0 ? hint->len : (size_t)stop + 2);
    return sentence;
}

static bool is_about_resume(slice text)
{
    return slice_find(text, SLICE("esume")) >= 0 || slice_find(text, SLICE("esuming")) >= 0;
}

slice flow_hint_unresumed(slice hint, struct arena *arena)
{
    struct buf out;
    buf_init(&out, HINT_BYTES_MAX);
    while (hint.len > 0) {
        slice sentence = next_sentence(&hint);
        if (is_about_resume(sentence))
            continue;
        if (out.len > 0)
            buf_append_char(&out, ' ');
        buf_append(&out, sentence);
    }
    return arena_take(arena, &out);
}

/* Appends the hint's sentences. Returns whether one of them says to correct the request. */
static bool put_own(struct buf *out, slice hint, bool is_held)
{
    static const slice retry = SLICE_INIT(", then try again.");
    bool is_any = false;
    while (hint.len > 0) {
        slice sentence = next_sentence(&hint);
        if (is_foreign(sentence))
            continue;
        if (out->len > 0)
            buf_append_char(out, ' ');
        bool corrects = slice_starts_with(sentence, SLICE("Correct "));
        is_any |= corrects;
        if (is_held && corrects && slice_ends_with(sentence, retry)) {
            put_words(out, slice_first(sentence, sentence.len - retry.len));
            buf_append_char(out, '.');
        } else {
            put_words(out, sentence);
        }
    }
    return is_any;
}

static bool is_of_input(enum exec_reason reason)
{
    return reason == EXEC_INPUT_INVALID || reason == EXEC_PROVIDER_INVALID;
}

/* Returns the sentence with which every hint ends, unless the hint contains it already. */
static const char *end_of(enum exec_reason reason)
{
    if (is_of_input(reason))
        return "Resume makes the same call again. To use another input, start a new flow.";
    if (reason == EXEC_ADDRESS_REFUSED || reason == EXEC_OPERATION_GONE)
        return "Resume makes the same call again.";
    return "Then resume the flow.";
}

slice flow_hint_of(const struct exec_outcome *outcome, enum exec_effect effect, bool is_held,
                   struct arena *arena)
{
    const char *words = (is_held ? held_words : reason_words)(outcome->reason);
    struct buf out;
    if (effect == EXEC_EFFECT_UNKNOWN)
        return flow_hint_unknown();
    if (effect == EXEC_EFFECT_DONE)
        return SLICE("The call was carried out, but its result was lost. Check first: resume makes "
                     "the call again.");
    if (effect == EXEC_EFFECT_PARTLY)
        return SLICE("What was done stays done, and resume would do it once more. Do the rest in "
                     "another way.");
    buf_init(&out, HINT_BYTES_MAX);
    bool is_corrected = is_of_input(outcome->reason);
    if (!words || outcome->is_hint_given)
        is_corrected |= put_own(&out, outcome->hint, is_held);
    if (out.len == 0 && words)
        buf_append_cstr(&out, words);
    slice said = buf_slice(&out);
    const char *end = end_of(outcome->reason);
    bool is_said = is_about_resume(said);
    if (is_held && is_corrected) {
        end = "Send a corrected request: resume sends the same input again.";
        is_said = false;
    }
    if (!is_said) {
        if (said.len > 0 && said.ptr[said.len - 1] != '.')
            buf_append_char(&out, '.');
        buf_printf(&out, "%s%s", out.len > 0 ? " " : "", end);
    }
    return arena_take(arena, &out);
}
