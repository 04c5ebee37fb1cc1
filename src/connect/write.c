/*
 * A connection as JSON, and the cursor of lists of connections: for the API, the dashboard and the
 * operator's commands.
 */
#include "connect/connect.h"

void connect_write(struct json_writer *w, const struct connection *row)
{
    char id[SLICE_U64_MAX];
    json_member_str(w, "id", slice_of_u64((uint64_t)row->id, id));
    json_member_str(w, "integration_id", row->integration_id);
    json_member_str(w, "label", row->label);
    json_member_bool(w, "default", row->is_default);
    json_member_str(w, "auth", row->auth_kind);
    json_member_str(w, "status", slice_cstr(connection_status_name(row->status)));
    json_member_str(w, "error", row->error.len > 0 ? row->error : SLICE_NONE);
    json_member_str(w, "scopes", row->scopes);
    json_member_time(w, "expires_at", row->expires_at);
    json_member_time(w, "last_used_at", row->last_used_at);
    json_member_time(w, "failed_at", row->failed_at);
    json_member_str(w, "failure", row->failure);
    json_key(w, "identity");
    if (connection_identity_is_known(&row->identity)) {
        json_open(w, '{');
        json_member_str(w, "email", row->identity.email);
        json_member_str(w, "subject", row->identity.subject);
        json_member_str(w, "label", row->identity.label);
        json_close(w, '}');
    } else {
        json_put_null(w);
    }
    json_member_time(w, "created_at", row->created_at);
    json_member_time(w, "updated_at", row->updated_at);
    if (row->is_shared)
        json_member_bool(w, "shared", true);
}

struct connection connect_as_shared(const struct connection *row)
{
    return (struct connection){
        .id = row->id,
        .integration_id = row->integration_id,
        .label = row->label,
        .is_default = row->is_default,
        .auth_kind = row->auth_kind,
        .status = row->status,
        .created_at = row->created_at,
        .updated_at = row->updated_at,
        .is_shared = true,
    };
}

void connect_write_brief(struct json_writer *w, const struct connection *row)
{
    const struct connection_identity *identity = &row->identity;
    char id[SLICE_U64_MAX];
    json_member_str(w, "id", slice_of_u64((uint64_t)row->id, id));
    json_member_str(w, "integration_id", row->integration_id);
    json_member_str(w, "label", row->label);
    json_member_str(w, "identity",
                    identity->label.ptr   ? identity->label
                    : identity->email.ptr ? identity->email
                                          : identity->subject);
    json_member_str(w, "status", slice_cstr(connection_status_name(row->status)));
    json_member_bool(w, "default", row->is_default);
    if (row->is_shared)
        json_member_bool(w, "shared", true);
}

/* The cursor consists of the two columns that order the list. An integration's id contains no colon
 * (catalog/manifest.c). */
slice connect_cursor(const struct connection *last, struct arena *arena)
{
    return arena_printf(arena, "%.*s:%lld", SLICE_ARG(last->integration_id), (long long)last->id);
}

bool connect_cursor_read(slice text, struct connection_page *page)
{
    slice id = text, integration_id = slice_split(&id, ':');
    if (!text.ptr)
        return true;
    page->after_integration_id = integration_id;
    return integration_id.len > 0 && slice_to_i64(id, &page->after_id) && page->after_id > 0 &&
           (!page->integration_id.ptr || slice_eq(page->integration_id, integration_id));
}
