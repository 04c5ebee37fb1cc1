/*
 * Data of pages; see view.h.
 */
#include "web/view.h"

#include "base/clock.h"

struct json_writer *view_begin(struct web_request *request)
{
    /* A page that has failed midway is left for one that says so. */
    buf_deinit(&request->view_text);
    buf_init(&request->view_text, WEB_PAGE_BYTES_MAX);
    json_begin(&request->view, &request->view_text);
    json_open(&request->view, '{');
    return &request->view;
}

void view_id(struct json_writer *w, const char *key, struct uuid id)
{
    char text[UUID_TEXT_LEN + 1];
    uuid_format(id, text);
    json_member_str(w, key, slice_of(text, UUID_TEXT_LEN));
}

void view_time(struct json_writer *w, const char *key, int64_t wall_us)
{
    char text[TIME_TEXT_LEN + 1];
    time_format(wall_us, text);
    json_member_str(w, key, wall_us != 0 ? slice_of(text, TIME_TEXT_LEN) : SLICE_NONE);
}

void view_key(struct json_writer *w, struct uuid id, slice name)
{
    if (uuid_is_nil(id))
        json_member_str(w, "key_id", SLICE_NONE);
    else
        view_id(w, "key_id", id);
    json_member_str(w, "key_name", name);
}

slice view_span(struct arena *arena, int64_t us)
{
    /* what a unit is for: spans up to so much, which is so many microseconds, with decimals */
    static const struct {
        double below, unit;
        int decimals;
        const char *name;
    } units[] = {{1e6, 1e3, 0, "ms"},
                 {60e6, 1e6, 1, "s"},
                 {3600e6, 60e6, 0, "min"},
                 {2 * 86400e6, 3600e6, 0, "h"},
                 {1e300, 86400e6, 0, "days"}};
    size_t i = 0;
    double span = us > 0 ? (double)us : 0;
    while (span >= units[i].below)
        i++;
    return arena_printf(arena, "%.*f %s", units[i].decimals, span / units[i].unit, units[i].name);
}

void view_took(struct web_request *request, struct json_writer *w, const char *key, int64_t us)
{
    json_member_str(w, key, view_span(&request->op.arena, us));
}

/* A single quote within single quotes of a shell is '\\''. */
static void append_quoted(struct buf *out, slice text)
{
    buf_append_char(out, '\'');
    for (bool is_first = true; text.ptr; is_first = false) {
        slice part = slice_split(&text, '\'');
        buf_append(out, is_first ? SLICE("") : SLICE("'\\''"));
        buf_append(out, part);
    }
    buf_append_char(out, '\'');
}

void view_curl(struct web_request *request, struct json_writer *w, const char *key,
               const struct view_call *call)
{
    struct buf out, body;
    bool is_get = slice_eq_cstr(call->method, "GET");
    buf_init(&out, WEB_PAGE_BYTES_MAX / 8);
    buf_init(&body, WEB_PAGE_BYTES_MAX / 8);
    buf_append(&out, SLICE("curl "));
    if (!is_get && !(call->body && slice_eq_cstr(call->method, "POST"))) {
        buf_append(&out, SLICE("-X "));
        buf_append(&out, call->method);
        buf_append_char(&out, ' ');
    }
    buf_append_cstr(&out, request->web->public_url);
    buf_append(&out, call->path);
    if (call->has_key)
        buf_append(&out, SLICE(" \\\n  -H \"Authorization: Bearer $SLUICE_KEY\""));
    if (call->body) {
        json_write_pretty(&body, call->body);
        buf_append(&out, SLICE(" \\\n  -H 'Content-Type: application/json' \\\n  -d "));
        append_quoted(&out, buf_slice(&body));
    }
    json_member_str(w, key, buf_is_ok(&body) ? buf_slice(&out) : SLICE_NONE);
    buf_deinit(&out);
    buf_deinit(&body);
}
