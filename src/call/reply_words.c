/*
 * See reply_words.h.
 */
#include "call/reply_words.h"

/* ---- replies ---- */

#define NOTHING "Nothing was done. "

/* Texts by status, for a reply whose meaning no rule defines. */
struct status_words {
    unsigned status; /* 0: any other */
    const char *words, *hint;
};

/* What a status means at most providers; the manifest's rules are more precise and are tried
 * first. */
static const struct status_words *status_words(unsigned status)
{
    static const char check_ids[] = NOTHING "Check that the ids in the input exist and that the "
                                            "connected account can see them.";
    static const struct status_words table[] = {
        {404, "found nothing there", check_ids},
        {409, "reports a conflict with the current state",
         NOTHING "Read the current state, then send a request that fits it."},
        {410, "says that this was deleted for good",
         NOTHING "Do not send it again. List or search again to see what exists now."},
        {412, "says that this was changed in the meantime",
         NOTHING "Read it again, then send the change for its current version."},
        {413, "does not accept a request of that size",
         NOTHING "Send less: a smaller file, a shorter text, or fewer items at a time."},
        {0, "reported an error", check_ids},
    };
    static const struct status_words redirect = {
        300, "answered with a redirect, which is not followed",
        NOTHING "The redirect is not followed. The resource may have been renamed or moved and "
                "may now have "
                "another name or id. If not, the manifest's base_url or the connection's "
                "address is out of date."};
    const struct status_words *row = table;
    if (status >= 300 && status < 400)
        return &redirect;
    while (row->status != status && row->status != 0)
        row++;
    return row;
}

const char *reply_status_words(enum exec_reason reason, unsigned status)
{
    switch (reason) {
    case EXEC_REAUTH_REQUIRED:
    case EXEC_KEY_REFUSED:
        return "refused the credential";
    case EXEC_PROVIDER_FORBIDDEN:
        return "does not let the connected account do this";
    case EXEC_PROVIDER_RATE_LIMITED:
        return "limits the rate of calls";
    case EXEC_PROVIDER_INVALID:
        return "found the request invalid";
    case EXEC_PROVIDER_UNSUPPORTED:
        return "does not offer this operation";
    default:
        return status_words(status)->words;
    }
}

/* Returns why the outcome is unknown, and what to do. An idempotency key of the caller stays bound
 * to this outcome. */
static slice unknown_hint(unsigned status)
{
    if (status >= 500)
        return SLICE("The outcome is unknown: the provider failed while handling a write, which "
                     "may or may not have happened. Check before sending it again.");
    if (status >= 400)
        return SLICE("The outcome is unknown: the provider refused the request, which does not "
                     "prove that it did nothing. Check, then send the request, corrected where the "
                     "message says so, under a new idempotency_key.");
    if (status >= 300)
        return SLICE("The outcome is unknown: a redirect can answer a write that was carried out, "
                     "and it is not followed. Check before sending it again.");
    return SLICE(
        "The outcome is unknown: the app reported an error in a reply with a success status, so "
        "the write may or may not have happened. Check before sending it again.");
}

static slice error_hint(unsigned status, bool is_write)
{
    if (status >= 500 && !is_write)
        return SLICE("Nothing was changed. The provider has a problem. Try again later.");
    if (status >= 500 || status < 300) /* the app itself has refused */
        return SLICE("Nothing was done. Correct what the message says, then try again.");
    return slice_cstr(status_words(status)->hint);
}

slice reply_hint(enum exec_reason reason, enum exec_effect effect, unsigned status, bool is_write)
{
    if (effect == EXEC_EFFECT_UNKNOWN)
        return unknown_hint(status);
    switch (reason) {
    case EXEC_REAUTH_REQUIRED:
    case EXEC_KEY_REFUSED:
        return SLICE("Nothing was done. Reconnect the app, then send the same request again.");
    case EXEC_PROVIDER_FORBIDDEN:
        return SLICE("Nothing was done. Reconnect the app with the permissions that the action's "
                     "scopes name, or use an account that may do this.");
    case EXEC_PROVIDER_RATE_LIMITED:
        return SLICE("Nothing was done. Wait as long as Retry-After says (a minute if it is "
                     "absent), then send the same request again.");
    case EXEC_PROVIDER_INVALID:
        return SLICE("Nothing was done. Correct the input as the message says, then try again.");
    case EXEC_PROVIDER_UNSUPPORTED:
        return SLICE("Nothing was done. Do not send it again unchanged. Use another action.");
    case EXEC_TIMED_OUT:
    case EXEC_PROVIDER_ERROR:
        return error_hint(status, is_write);
    default:
        return SLICE_NONE;
    }
}

/* ---- calls without a reply ---- */

const char *reply_call_words(enum exec_reason reason, enum http_call_result result)
{
    if (result == HTTP_CALL_TIMEOUT_CONNECT)
        return "could not be connected to in time";
    if (reason == EXEC_BROKEN_OFF && result == HTTP_CALL_PROTOCOL)
        return "did not answer with HTTP";
    switch (reason) {
    case EXEC_ADDRESS_REFUSED:
        return "has an address that this server may not call";
    case EXEC_TIMED_OUT:
        return "did not answer in time";
    case EXEC_REPLY_TOO_LARGE:
        return "sent a reply that is larger than this server accepts";
    case EXEC_OWN_RATE_LIMIT:
        return "has too many calls from this server in progress";
    case EXEC_UNREACHABLE:
        return "could not be reached";
    case EXEC_REPLY_UNREADABLE:
        return "did not send the reply that this action expects";
    default:
        return "did not send a whole, readable reply";
    }
}

/* Chosen by the possible effect of the request: only a request without an effect is repeated
 * without a check. */
slice reply_call_hint(enum exec_reason reason, enum http_call_result result,
                      enum exec_effect effect, bool is_any_byte_sent, bool is_write)
{
    if (reason == EXEC_ADDRESS_REFUSED)
        return SLICE("Nothing was sent, so nothing was done. Sending it again does not help. The "
                     "operator's setting allow-host decides which addresses may be called.");
    if (effect == EXEC_EFFECT_DONE)
        return SLICE("The action ran. Do not repeat it unchanged. Ask for fewer items or fields.");
    if (!is_any_byte_sent)
        return SLICE("Nothing was sent, so nothing was done. Trying again is safe.");
    if (reason == EXEC_REPLY_UNREADABLE && is_write)
        return SLICE("The outcome is unknown: the write may or may not have happened, since a "
                     "proxy or a login page may have answered in the app's place. Check before "
                     "sending it again.");
    if (effect == EXEC_EFFECT_UNKNOWN && reason == EXEC_TIMED_OUT)
        return SLICE("The outcome is unknown: no answer came in time, and the write may or may not "
                     "have happened. Check before sending it again.");
    if (effect == EXEC_EFFECT_UNKNOWN)
        return SLICE("The outcome is unknown: the write may or may not have happened. Check before "
                     "sending it again.");
    if (reason == EXEC_REPLY_TOO_LARGE)
        return SLICE(
            "Nothing was changed. Do not repeat it unchanged. Ask for fewer items or fields.");
    if (reason == EXEC_REPLY_UNREADABLE)
        return SLICE(
            "Nothing was changed. A proxy or a login page may have answered in the app's place. "
            "Try again later, or ask the operator of this server to check what answers at that "
            "address.");
    if (result == HTTP_CALL_PROTOCOL)
        return SLICE("Nothing was changed. The server at the app's address does not speak HTTP. "
                     "Ask the operator of this server to check that address.");
    if (reason == EXEC_TIMED_OUT)
        return SLICE("Nothing was changed. Trying again is safe. If it takes too long again, ask "
                     "for less at a time.");
    return SLICE("Nothing was changed. Trying again is safe.");
}
