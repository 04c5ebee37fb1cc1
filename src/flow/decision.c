/*
 * A person's decision about a flow (approval, rejection, resume or cancel): its audit event, the
 * limit of its note, and the decider, as read from the approval's attempt.
 */
#include "flow/flow.h"
#include "store/audit.h"

enum {
    DETAILS_BYTES_MAX = 16 * 1024, /* escapes in a note take six bytes for each character */
    TITLE_BYTES_MAX = 400,
};

static void put_decision_text(struct json_writer *w, const char *key, slice text)
{
    if (text.ptr)
        json_member_str(w, key, text);
}

bool flow_note_fits(slice note)
{
    size_t chars = 0;
    for (size_t at = 0; at < note.len && chars <= FLOW_NOTE_CHARS_MAX; chars++) {
        slice rest = slice_from(note, at);
        size_t len = slice_starts_with(rest, SLICE("\r\n")) ? 2 : slice_utf8_first(rest);
        at += len ? len : 1; /* an invalid byte is shown as one character */
    }
    return chars <= FLOW_NOTE_CHARS_MAX;
}

/* ---- the decider ---- */

/* The message of a rejection begins with the actor, which flow_decider_of reads. */
static const char rejected_by[] = FLOW_REJECTED_BY;

slice flow_rejection_message(slice actor, slice note, struct arena *arena)
{
    struct buf message;
    buf_init(&message, 64 * 1024);
    buf_append_cstr(&message, rejected_by);
    buf_append(&message, actor);
    buf_append_cstr(&message, note.ptr ? ": " : ".");
    buf_append(&message, note);
    return arena_take(arena, &message);
}

slice flow_decider_of(const struct json *output, const struct json *error, slice *note)
{
    slice message = json_get_str(error, SLICE("message"));
    *note = json_get_str(output, SLICE("note"));
    if (json_get_str(output, SLICE("approvedBy")).ptr)
        return json_get_str(output, SLICE("approvedBy"));
    if (!slice_starts_with(message, slice_cstr(rejected_by)))
        return SLICE_NONE; /* it has expired */
    message = slice_from(message, sizeof(rejected_by) - 1);
    slice by = slice_split(&message, ' '); /* the actor, with the ":" or "." after it */
    *note = message;
    return by.len > 1 ? slice_first(by, by.len - 1) : SLICE_NONE;
}

/* ---- the audit event ---- */

/* Returns the title of the approval that was decided, which a later version of the template or the
 * end of the flow does not change. SLICE_NONE: it has none, or another command. */
static slice title_of(const struct flow_command *command, struct arena *arena)
{
    slice asked = command->decided.input;
    const struct json *input = asked.len > 0 ? json_parse(arena, asked, &json_limits_provider, NULL)
                                             : NULL;
    slice title = json_get_str(input, SLICE("title"));
    return title.len > 0 ? slice_first_utf8(title, TITLE_BYTES_MAX) : SLICE_NONE;
}

/* Makes {"flow_id", "title"?, "step_key"?, "note"?, "by"?}. */
static slice details(const struct flow_command *command, struct arena *arena)
{
    const struct flow_request *decision = &command->in;
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, DETAILS_BYTES_MAX);
    json_open(w, '{');
    json_member_uuid(w, "flow_id", decision->flow_id);
    put_decision_text(w, "title", title_of(command, arena));
    put_decision_text(w, "step_key", decision->step_key);
    put_decision_text(w, "note", decision->note);
    put_decision_text(w, "by", decision->by.means);
    json_close(w, '}');
    return json_text_take(&text, arena);
}

void flow_decision_audit(struct pg_pool *pool, struct pg_query *query, struct op *op,
                         const struct flow_command *command)
{
    static const enum audit_kind kinds[] = {[FLOW_COMMAND_APPROVE] = AUDIT_FLOW_APPROVED,
                                            [FLOW_COMMAND_REJECT] = AUDIT_FLOW_REJECTED,
                                            [FLOW_COMMAND_RESUME] = AUDIT_FLOW_RESUMED,
                                            [FLOW_COMMAND_CANCEL] = AUDIT_FLOW_CANCELLED};
    const struct flow_request *decision = &command->in;
    ASSERT(decision->kind < ARRAY_LEN(kinds) && kinds[decision->kind] > 0);
    ASSERT(command->is_changed);
    const struct audit_event event = {
        .account_id = decision->account_id,
        .id = uuid_v7(),
        .kind = audit_kind_name(kinds[decision->kind]),
        /* An earlier attempt of this command may have cancelled the flow and lost the answer, so
         * the event is written even then. */
        .reason = command->was_cancelled ? SLICE("already_cancelled") : SLICE_NONE,
        .by = decision->by,
        .details = details(command, &op->arena),
    };
    store_audit_insert(pool, query, op, &event);
}

void flow_decision_audited(struct op *op, const struct pg_query *query)
{
    if (store_done_result(query) != OK)
        op_log(op, LOG_ERROR, "a decision about a flow is not in the audit trail",
               LOG_INT("status", query->status), LOG_STR("cause", query->message));
}
