/*
 * See reply_words.h.
 */
#include "exec/reply_words.h"

/* ---- replies ---- */

const char *reply_status_words(enum exec_reason reason, unsigned status)
{
    switch (reason) {
    case EXEC_REAUTH_REQUIRED:
    case EXEC_KEY_REFUSED:
        return "refused the stored credential";
    case EXEC_PROVIDER_FORBIDDEN:
        return "does not let the connected account do this";
    case EXEC_PROVIDER_RATE_LIMITED:
        return "limits the rate of calls";
    case EXEC_PROVIDER_INVALID:
        return "found the request invalid";
    case EXEC_PROVIDER_UNSUPPORTED:
        return "does not offer this operation";
    default:
        return status == 404                   ? "found nothing there"
               : status >= 300 && status < 400 ? "answered with a redirect, "
                                                 "which is not followed"
                                               : "reported an error";
    }
}

/* Why it is not known, and what to do. A given key stays bound to this outcome. */
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
    return SLICE("The outcome is unknown: the app reported an error with a status of success, so "
                 "the write may or may not have happened. Check before sending it again.");
}

static slice error_hint(unsigned status, bool is_write)
{
    if (status >= 500 && !is_write)
        return SLICE("Nothing was changed. The provider has a problem of its own; try again "
                     "later.");
    if (status >= 500 || status < 300) /* the app's own way to say no */
        return SLICE("Nothing was done. Correct what the message says, then try again.");
    if (status < 400)
        return SLICE("Nothing was done. The provider answered with a redirect, and those are not "
                     "followed: the manifest's base_url or the connection's address is out of "
                     "date.");
    return SLICE("Nothing was done. Check that the ids in the input exist and that the connected "
                 "account can see them.");
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
        return SLICE("Nothing was done. Wait as long as Retry-After says (a minute where there is "
                     "none), then send the same request again.");
    case EXEC_PROVIDER_INVALID:
        return SLICE("Nothing was done. Correct the input as the message says, then try again.");
    case EXEC_PROVIDER_UNSUPPORTED:
        return SLICE("Nothing was done. Do not send it again unchanged; use another action.");
    case EXEC_TIMED_OUT:
    case EXEC_PROVIDER_ERROR:
        return error_hint(status, is_write);
    default:
        return SLICE_NONE;
    }
}

/* ---- calls that brought no reply ---- */

const char *reply_call_words(enum exec_reason reason)
{
    switch (reason) {
    case EXEC_ADDRESS_REFUSED:
        return "is at an address that this server may not call";
    case EXEC_TIMED_OUT:
        return "took too long";
    case EXEC_REPLY_TOO_LARGE:
        return "sent a reply that is larger than this server takes";
    case EXEC_OWN_RATE_LIMIT:
        return "has too many calls of this server under way";
    case EXEC_UNREACHABLE:
        return "could not be reached";
    case EXEC_REPLY_UNREADABLE:
        return "did not send the reply that this action has";
    default:
        return "did not send a whole, readable reply";
    }
}

slice reply_call_hint(enum exec_reason reason, enum exec_effect effect, bool is_any_byte_sent,
                      bool is_write)
{
    if (reason == EXEC_ADDRESS_REFUSED)
        return SLICE("Nothing was sent, so nothing was done. Sending it again does not help; the "
                     "operator's setting allow-host decides.");
    if (effect == EXEC_EFFECT_DONE)
        return SLICE("The action ran. Do not repeat it unchanged; ask for fewer items or fields.");
    if (!is_any_byte_sent)
        return SLICE("Nothing was sent, so nothing was done; trying again is safe.");
    if (reason == EXEC_REPLY_UNREADABLE && is_write)
        return SLICE("The outcome is unknown: the write may or may not have happened, since a "
                     "proxy or a login page may have answered in the app's place. Check before "
                     "sending it again.");
    if (effect == EXEC_EFFECT_UNKNOWN)
        return SLICE("The outcome is unknown: the write may or may not have happened. Check before "
                     "sending it again.");
    if (reason == EXEC_REPLY_TOO_LARGE)
        return SLICE("Nothing was changed. Do not repeat it unchanged; ask for fewer items or "
                     "fields.");
    if (reason == EXEC_REPLY_UNREADABLE)
        return SLICE("Nothing was changed. A proxy or a login page may have answered in the app's "
                     "place: try again later, or have the operator of this server see what answers "
                     "there.");
    return SLICE("Nothing was changed; trying again is safe.");
}
