/*
 * The result of a dry run, for both execution endpoints: the request as the provider would receive
 * it, and later requests as far as they are known without a reply. The credential is masked; files,
 * and bodies that are not text, are replaced by their size.
 */
#include "exec/internal.h"

enum { DRY_RUN_BODY_BYTES_MAX = 64 * 1024, DRY_RUN_REPLY_BYTES_MAX = 2 * 1024 * 1024 };

#define MASK "***"

static void put_url(struct json_writer *w, const struct call_built *built, struct arena *arena)
{
    slice url = built->url;
    if (built->secret_len > 0)
        url = arena_printf(arena, "%.*s" MASK "%.*s", SLICE_ARG(slice_first(url, built->secret_at)),
                           SLICE_ARG(slice_from(url, built->secret_at + built->secret_len)));
    json_member_str(w, "url", url);
}

static void put_headers(struct json_writer *w, const struct call_built *built)
{
    json_member_open(w, "headers", '{');
    for (size_t i = 0; i < built->header_count; i++) {
        json_key_slice(w, built->headers[i].name);
        json_put_str(w, i == built->credential_index ? SLICE(MASK) : built->headers[i].value);
    }
    json_close(w, '}');
}

/* Returns the file whose bytes are this part of the body, or NULL. The bytes of files are not
 * copied (call/build.h), so the pointers are compared. */
static const struct call_file *file_of(const struct exec *exec, slice part)
{
    for (size_t i = 0; i < exec->in.file_count; i++)
        if (part.ptr && part.ptr == exec->in.files[i].bytes.ptr)
            return &exec->in.files[i];
    return NULL;
}

static void append_part(const struct exec *exec, slice part, struct buf *out)
{
    const struct call_file *file = file_of(exec, part);
    size_t room = DRY_RUN_BODY_BYTES_MAX - out->len;
    if (file)
        buf_printf(out, "<%.*s: %zu bytes>", SLICE_ARG(file->name), part.len);
    else if (!slice_is_utf8(part, NULL))
        buf_printf(out, "<%zu bytes>", part.len);
    else if (part.len <= room)
        buf_append(out, part);
    else
        buf_append(out, slice_first_utf8(part, room));
    if (!file && part.len > room)
        buf_printf(out, "<%zu bytes in all>", part.len);
}

/* Returns false if out of memory. */
static bool put_body(struct json_writer *w, const struct exec *exec)
{
    const struct call_built *built = &exec->attempt.request;
    struct buf text;
    buf_init(&text, DRY_RUN_BODY_BYTES_MAX * 2);
    for (size_t i = 0; i < built->body_count && text.len < DRY_RUN_BODY_BYTES_MAX; i++)
        append_part(exec, built->body[i], &text);
    json_member_str(w, "body",
                    built->body_count == 0 ? SLICE_NONE
                    : text.len             ? buf_slice(&text)
                                           : SLICE(""));
    bool is_ok = buf_is_ok(&text);
    buf_deinit(&text);
    return is_ok;
}

/* Writes the later requests; whether they can be built was checked before. Returns false if out of
 * memory. */
static bool put_later(struct json_writer *w, struct exec *exec)
{
    struct json later;
    struct err err;
    if (exec->progress.at == exec->action->then_count)
        return true;
    if (exec_preview(exec, &later, &err) != OK)
        return false;
    json_member(w, "then", &later);
    return true;
}

/* The reads of a list's items are not made either: they are named. */
static void put_each(struct json_writer *w, struct exec *exec)
{
    const struct catalog_each *each = exec->action->each;
    if (!exec_has_each(exec))
        return;
    json_member_open(w, "each", '{');
    json_member_str(w, "action_id", each->action_id);
    json_member_i64(w, "max", each->max);
    json_close(w, '}');
}

slice exec_render_dry_run(struct exec *exec)
{
    struct json_text text;
    ASSERT(exec->in.is_dry_run && exec->attempt.request.url.len > 0);
    struct json_writer *w = json_text_begin(&text, DRY_RUN_REPLY_BYTES_MAX);
    json_open(w, '{');
    json_member_bool(w, "dry_run", true);
    json_member_open(w, "request", '{');
    json_member_str(w, "method", exec->attempt.request.method);
    put_url(w, &exec->attempt.request, &exec->op.arena);
    put_headers(w, &exec->attempt.request);
    bool is_whole = put_body(w, exec);
    json_close(w, '}');
    put_each(w, exec);
    if (exec->in.policy || exec_is_held(exec)) {
        json_member_open(w, "policy", '{');
        policy_put_decision(w, &exec->verdict);
        if (exec->is_held_unattended)
            json_member_bool(w, "unattended", true);
        json_close(w, '}');
    }
    is_whole = put_later(w, exec) && is_whole && !exec->op.arena.is_exhausted;
    if (exec_shows_json(exec).ptr)
        json_member_raw(w, "shows", exec_shows_json(exec));
    if (exec_shows_unread_json(exec).ptr)
        json_member_raw(w, "unread", exec_shows_unread_json(exec));
    if (exec->in.is_recorded_by_caller && exec_shows_versions_json(exec).ptr)
        json_member_raw(w, "versions", exec_shows_versions_json(exec));
    json_close(w, '}');
    slice rendered = json_text_take(&text, &exec->op.arena);
    return is_whole ? rendered : SLICE_NONE;
}
