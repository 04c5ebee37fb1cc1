/*
 * Data from outside; see outside.h.
 *
 * sluice's own members are listed. Any other member is from outside, so that a member that is added
 * later is marked until it is listed here. Only containers of sluice are entered: no name inside a
 * value from outside is ever compared with the list.
 */
#include "mcp/outside.h"

#include "base/encode.h"
#include "base/id.h"
#include "json/scan.h"

enum { BYTES_MAX = 64 * 1024 * 1024, ID_BYTES = 6 };

/* Objects, or arrays of objects, with members of both kinds. */
#define MIXED "flow steps error connection connections results"

/* `error` means a sentence here; an object of that name is in MIXED. */
#define OWN                                                                                      \
    "status execution_id integration_id action_id started_at finished_at outcome error_code "    \
    "retryable retry_after hint recommended_next_action idempotent_replayed dry_run "            \
    "error truncated bytes flowId output_of output_bytes to_approve_bytes "                      \
    "id rev name templateKey triggerType currentStep createdAt updatedAt startedAt completedAt " \
    "stepKey stepIndex stepType attemptCount wakeAt expiresAt code tries default "               \
    "next_cursor coerced resumable approval_flow_id"

/* The codes of blocked calls whose message cannot quote an app. */
#define OWN_REFUSALS                                                                     \
    "integration_not_found action_not_found integration_not_connected validation_error " \
    "policy_blocked forbidden rate_limited execution_failed"

struct division {
    struct arena *arena;
    struct json_writer *own, *pointers;
    bool is_failed;
};

static slice member_text(slice object, const char *name, struct arena *arena)
{
    return json_scan_str(json_scan_get(object, slice_cstr(name), arena), arena);
}

static bool is_summary(slice pointer)
{
    static const char results[] = "/results/";
    return pointer.len == 0 || (slice_starts_with(pointer, slice_cstr(results)) &&
                                slice_find_char(slice_from(pointer, strlen(results)), '/') < 0);
}

/* Whether a person's words or an app's may be in the message: the hold's approval is over. */
static bool is_approval_over(slice approval, struct arena *arena)
{
    slice status = member_text(approval, "status", arena);
    return approval.ptr && !slice_has_word(SLICE("waiting running"), status);
}

/* Whether the message of this summary is sluice's own. */
static bool is_refusal(slice object, struct arena *arena)
{
    return slice_eq_cstr(member_text(object, "status", arena), "blocked") &&
           slice_has_word(SLICE(OWN_REFUSALS), member_text(object, "error_code", arena)) &&
           !is_approval_over(json_scan_get(object, SLICE("approval"), arena), arena);
}

static bool is_own(const struct division *d, slice object, slice pointer, slice name, slice value)
{
    if (json_scan_type(value) == JSON_NULL)
        return true;
    /* These two members are the message and the display of a summary: the whole, or one of
     * `results`. */
    if (slice_eq_cstr(name, "message") || slice_eq_cstr(name, "display"))
        return is_summary(pointer) && is_refusal(object, d->arena);
    if (slice_eq_cstr(name, "approval") || slice_eq_cstr(name, "policy"))
        return is_summary(pointer);
    /* The input of a step comes from earlier steps, and a hint about it may quote it. */
    if (slice_eq_cstr(name, "hint"))
        return !slice_eq_cstr(member_text(object, "code", d->arena), "validation_error");
    return slice_has_word(SLICE(OWN), name);
}

/* Returns the container with its data from outside only; SLICE_NONE: it has none. An array keeps
 * the positions of its items. */
static slice divide(struct division *d, slice container, slice pointer)
{
    struct json_text text;
    struct json_scan scan;
    slice key, value;
    size_t index = 0, written = 0;
    char bracket = json_scan_type(container) == JSON_ARRAY ? '[' : '{', digits[SLICE_U64_MAX];
    char closing = bracket == '[' ? ']' : '}';
    struct json_writer *outside = json_text_begin(&text, BYTES_MAX);
    json_open(outside, bracket);
    json_open(d->own, bracket);
    json_scan_open(&scan, container);
    for (; json_scan_next(&scan, &key, &value); index++) {
        slice name = bracket == '[' ? slice_of_u64(index, digits) : json_scan_str(key, d->arena);
        enum json_type type = json_scan_type(value);
        bool is_mixed = (type == JSON_OBJECT || type == JSON_ARRAY) &&
                        (bracket == '[' || slice_has_word(SLICE(MIXED), name));
        bool is_inside = is_mixed || is_own(d, container, pointer, name, value);
        if (is_inside && bracket == '{')
            json_key_slice(d->own, name);
        if (is_inside && !is_mixed) {
            json_put_raw(d->own, value);
            continue;
        }
        slice path = ARENA_JOIN(d->arena, pointer, SLICE("/"), name);
        if (is_mixed)
            value = divide(d, value, path);
        else
            json_put_str(d->pointers, path);
        if (!value.ptr)
            continue;
        for (; bracket == '[' && written < index; written++)
            json_put_raw(outside, SLICE("{}"));
        if (bracket == '{')
            json_key_slice(outside, name);
        json_put_raw(outside, value);
        written++;
    }
    json_close(d->own, closing);
    json_close(outside, closing);
    slice found = json_text_take(&text, d->arena);
    d->is_failed = d->is_failed || !found.ptr;
    return written > 0 ? found : SLICE_NONE;
}

bool mcp_outside_find(slice json_text, struct arena *arena, struct mcp_outside *found)
{
    struct json_text own, pointers;
    struct division d = {
        .arena = arena,
        .own = json_text_begin(&own, BYTES_MAX),
        .pointers = json_text_begin(&pointers, BYTES_MAX),
    };
    json_open(d.pointers, '[');
    found->outside = divide(&d, json_text, SLICE(""));
    json_close(d.pointers, ']');
    found->own = json_text_take(&own, arena);
    found->pointers = json_text_take(&pointers, arena);
    d.is_failed = d.is_failed || !found->own.ptr || !found->pointers.ptr;
    if (!found->outside.ptr)
        found->pointers = SLICE_NONE;
    return !d.is_failed;
}

slice mcp_outside_text(const struct mcp_outside *found, struct arena *arena)
{
    uint8_t bytes[ID_BYTES];
    char room[BASE64URL_LEN(ID_BYTES)];
    if (!found->outside.ptr)
        return found->own;
    random_bytes(bytes, sizeof(bytes));
    slice id = encode_base64url_in(room, sizeof(room), slice_of(bytes, sizeof(bytes)));
    return ARENA_JOIN(arena, found->own, found->own.len > 0 ? SLICE("\n") : SLICE_NONE,
                      SLICE("BEGIN "), id, SLICE("\n"), found->outside, SLICE("\nEND "), id);
}

slice mcp_outside_object(const struct mcp_outside *found, slice json_text, struct arena *arena)
{
    return found->pointers.ptr ? ARENA_JOIN(arena, SLICE("{\"outside\":"), found->pointers,
                                            SLICE(","), slice_from(json_text, 1))
                               : json_text;
}
