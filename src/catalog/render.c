/*
 * Renders the texts of the discovery endpoints (src/api/README.md "Catalog") when a manifest is
 * packed: they depend only on the manifest, so a request only copies bytes.
 */
#include <stdio.h>

#include "base/map.h"
#include "catalog/manifest.h"

enum { RENDER_BYTES_MAX = 4 * 1024 * 1024, SUMMARY_BYTES_MAX = 280 };

/* The text is truncated after the last sentence that fits, else at a word, else at a character. */
slice catalog_summary(slice description)
{
    slice text = slice_first_utf8(description, SUMMARY_BYTES_MAX);
    if (text.len == description.len)
        return text;
    /* Only ". " ends a sentence: "2.0" and "example.com" do not. */
    for (size_t end = text.len; end > 1; end--)
        if (text.ptr[end - 1] == ' ' && text.ptr[end - 2] == '.')
            return slice_first(text, end - 1);
    for (size_t end = text.len; end > 0; end--)
        if (text.ptr[end - 1] == ' ')
            return slice_first(text, end - 1);
    return text;
}

static void put_array(struct json_writer *w, const struct json *array)
{
    if (array) {
        json_put(w, array);
        return;
    }
    json_open(w, '[');
    json_close(w, ']');
}

static void put_item_members(struct json_writer *w, const struct catalog_action *action)
{
    json_member_str(w, "action_id", action->action_id);
    json_member_str(w, "title", action->title);
    json_member_str(w, "description", action->description);
    json_member_str(w, "side_effect_level", slice_cstr(catalog_level_name(action->level)));
}

/* Writes the names of the schema's properties that are required, or of those that are not, in the
 * schema's order. */
static void put_field_names(struct json_writer *w, const struct json *schema, bool wants_required)
{
    const struct json *properties = JSON_GET(schema, "properties");
    const struct json *required = JSON_GET(schema, "required");
    json_open(w, '[');
    for (uint32_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        slice name = json_str(&properties->as.members[i].key);
        if (json_has_text(required, name) == wants_required)
            json_put_str(w, name);
    }
    json_close(w, ']');
}

/* Writes a hash that changes if the schema changes in value, not only in spelling: members are
 * sorted before they are hashed. It is the same in every process and version of sluice, so clients
 * may use it as a cache key. */
static void put_schema_version(struct json_writer *w, const struct json *schema)
{
    struct buf text;
    char version[17];
    buf_init(&text, RENDER_BYTES_MAX);
    json_write_sorted(&text, schema);
    uint64_t hash = hash_stable(text.ptr, text.len);
    (void)snprintf(version, sizeof(version), "%016llx", (unsigned long long)hash);
    json_member_str(w, "schema_version", slice_cstr(version));
    if (!buf_is_ok(&text))
        w->out->is_failed = true;
    buf_deinit(&text);
}

/* Writes the manifest's own preconditions, then a note on how the action was proven. */
static void put_preconditions(struct json_writer *w, struct arena *arena,
                              const struct catalog_action *action)
{
    const struct json *own = action->preconditions;
    json_member_open(w, "preconditions", '[');
    for (uint32_t i = 0; json_is(own, JSON_ARRAY) && i < own->count; i++)
        json_put(w, json_at(own, i));
    json_open(w, '{');
    json_member_str(w, "kind", SLICE("note"));
    json_member_str(w, "description", catalog_proof(action, arena));
    json_close(w, '}');
    json_close(w, ']');
}

static void put_count(struct json_writer *w, const char *name, uint64_t count)
{
    json_key(w, name);
    if (count > 0)
        json_put_i64(w, (int64_t)count);
    else
        json_put_null(w);
}

/* Writes "files", which is null if the action accepts none; a limit in it is null if the server's
 * limit applies. */
static void put_files(struct json_writer *w, const struct catalog_files *files)
{
    static const char *const travels[] = {
        [FILES_MULTIPART] = "multipart", [FILES_RAW] = "raw", [FILES_BASE64] = "base64"};
    json_key(w, "files");
    if (files->travel == FILES_NONE) {
        json_put_null(w);
        return;
    }
    json_open(w, '{');
    json_member_str(w, "travel", slice_cstr(travels[files->travel]));
    json_member_str(w, "field", files->field.len > 0 ? files->field : SLICE_NONE);
    put_count(w, "count_max", files->count_max);
    put_count(w, "bytes_max", files->bytes_max);
    json_close(w, '}');
}

static void put_form(struct json_writer *w, const struct catalog_auth *auth)
{
    json_member_open(w, "form", '[');
    for (size_t i = 0; i < auth->field_count; i++) {
        const struct catalog_field *field = &auth->fields[i];
        json_open(w, '{');
        json_member_str(w, "name", field->name);
        json_member_str(w, "label", field->label);
        json_member_str(w, "help", field->help);
        json_member_str(w, "placeholder", field->placeholder);
        json_member_str(w, "docs_url", field->docs_url);
        json_member_bool(w, "required", !field->may_be_empty);
        json_close(w, '}');
    }
    json_close(w, ']');
}

/* Writes the ways to connect the app; the list is empty if it needs no connection. */
static void put_auths(struct json_writer *w, const struct catalog_integration *integration)
{
    json_member_open(w, "auth", '[');
    for (size_t i = 0; i < integration->auth_count; i++) {
        const struct catalog_auth *auth = &integration->auths[i];
        if (auth->kind == AUTH_NONE)
            continue;
        json_open(w, '{');
        json_member_str(w, "type", slice_cstr(catalog_auth_name(auth->kind)));
        json_member_str(w, "name", auth->name.len > 0 ? auth->name : SLICE_NONE);
        put_form(w, auth);
        json_close(w, '}');
    }
    json_close(w, ']');
}

static void put_detail(struct json_writer *w, struct arena *arena,
                       const struct catalog_action *action)
{
    ASSERT(action->input_schema); /* an action without a schema was refused */
    json_open(w, '{');
    json_member_str(w, "integration_id", action->integration->integration_id);
    put_item_members(w, action);
    json_member_str(w, "tool_name", action->tool_name);
    json_member_bool(w, "requires_confirmation", action->requires_confirmation);
    json_member_bool(w, "idempotent", action->is_idempotent);
    json_member_str(w, "undo", action->undo.len > 0 ? action->undo : SLICE_NONE);
    json_key(w, "scopes");
    put_array(w, action->scopes);
    json_member(w, "input_schema", action->input_schema);
    put_schema_version(w, action->input_schema);
    json_member_open(w, "input_summary", '{');
    json_key(w, "required");
    put_field_names(w, action->input_schema, true);
    json_key(w, "optional");
    put_field_names(w, action->input_schema, false);
    json_close(w, '}');
    json_member(w, "output_schema", action->output_schema);
    put_files(w, &action->files);
    json_key(w, "examples");
    put_array(w, action->examples);
    put_preconditions(w, arena, action);
    put_auths(w, action->integration);
    json_close(w, '}');
}

/* Copies the written text into the arena and empties the buffer. */
static int keep_rendered(struct arena *arena, struct buf *out, slice *text)
{
    *text = buf_is_ok(out) ? arena_dup(arena, buf_slice(out)) : SLICE_NONE;
    buf_clear(out);
    return text->ptr ? OK : ERR_NOMEM;
}

static int render_action(struct arena *arena, struct buf *out, struct catalog_action *action)
{
    struct json_writer w;
    json_begin(&w, out);
    json_open(&w, '{');
    put_item_members(&w, action);
    json_close(&w, '}');
    if (keep_rendered(arena, out, &action->item_json) != OK)
        return ERR_NOMEM;
    json_begin(&w, out);
    put_detail(&w, arena, action);
    return keep_rendered(arena, out, &action->detail_json);
}

int manifest_render(struct arena *arena, struct catalog_integration *integration)
{
    struct buf out;
    struct json_writer w;
    int result = OK;
    buf_init(&out, RENDER_BYTES_MAX);
    json_begin(&w, &out);
    json_open(&w, '[');
    for (size_t i = 0; i < integration->action_count; i++)
        json_put_str(&w, integration->actions[i].action_id);
    json_close(&w, ']');
    result = keep_rendered(arena, &out, &integration->capabilities_json);
    for (size_t i = 0; i < integration->action_count && result == OK; i++)
        result = render_action(arena, &out, &integration->actions[i]);
    buf_deinit(&out);
    return result;
}
