/*
 * Data of pages; see view.h.
 */
#include "web/view.h"

#include <math.h>

#include "base/ascii.h"
#include "base/clock.h"
#include "catalog/catalog.h"

struct json_writer *view_begin(struct web_request *request)
{
    /* If a page has failed midway, a page with the reason replaces it. */
    buf_deinit(&request->view_text);
    buf_init(&request->view_text, WEB_PAGE_BYTES_MAX);
    json_begin(&request->view, &request->view_text);
    json_open(&request->view, '{');
    return &request->view;
}

void view_members(struct json_writer *w, const struct json *object)
{
    for (uint32_t i = 0; i < object->count; i++) {
        json_key_slice(w, json_str(&object->as.members[i].key));
        json_put(w, &object->as.members[i].value);
    }
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

slice view_key_label(struct arena *arena, const struct api_key *keys, size_t count, struct uuid id)
{
    for (size_t i = 0; i < count; i++)
        if (uuid_eq(keys[i].id, id))
            return keys[i].name.len > 0
                       ? keys[i].name
                       : arena_printf(arena, "%.*s\u2026", SLICE_ARG(keys[i].prefix));
    return SLICE_NONE;
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
    /* the units: for spans below a limit, each of that many microseconds, with decimals */
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
    /* as it is written: 999.7 ms is 1.0 s */
    while (span + units[i].unit / (units[i].decimals ? 20 : 2) >= units[i].below)
        i++;
    return arena_printf(arena, "%.*f %s", units[i].decimals, span / units[i].unit, units[i].name);
}

void view_took(struct web_request *request, struct json_writer *w, const char *key, int64_t us)
{
    json_member_str(w, key, view_span(&request->serve.op.arena, us));
}

/* Returns one of the style sheet's backgrounds, h0 to h5; always the same for the same text. */
static int64_t ground_of(slice id)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < id.len; i++)
        sum = sum * 31 + (unsigned char)id.ptr[i];
    return sum % 6;
}

void view_app_mark(struct json_writer *w, slice id, slice name)
{
    json_member_open(w, "mark", '{');
    json_member_str(w, "letters", slice_first_utf8(name, 2));
    json_member_i64(w, "ground", ground_of(id));
    json_close(w, '}');
}

void view_app_mark_of(struct web_request *request, struct json_writer *w, slice id)
{
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, id, NULL);
    view_app_mark(w, id, app ? app->name : id);
}

void view_app_icon(struct json_writer *w, slice id, const struct catalog_integration *app)
{
    json_member_open(w, "mark", '{');
    json_member_str(w, "letters", slice_first_utf8(app ? app->name : id, 2));
    json_member_i64(w, "ground", ground_of(id));
    json_member_str(w, "icon", app && app->icon.len > 0 ? app->icon : SLICE_NONE);
    json_close(w, '}');
}

/* Returns the relative luminance of a channel of "#rrggbb", by WCAG 2. */
static double light_of(slice colour, size_t channel)
{
    ASSERT(colour.len == 7); /* the column's check */
    const char *digits = colour.ptr + 1 + 2 * channel;
    double part = (16 * ascii_hex_value(digits[0]) + ascii_hex_value(digits[1])) / 255.0;
    return part <= 0.04045 ? part / 12.92 : pow((part + 0.055) / 1.055, 2.4);
}

slice view_ink_on(slice colour)
{
    double light =
        0.2126 * light_of(colour, 0) + 0.7152 * light_of(colour, 1) + 0.0722 * light_of(colour, 2);
    /* If white has less than 4.5 to 1, black has more than 4.6. */
    return 1.05 / (light + 0.05) >= 4.5 ? SLICE("#fff") : SLICE("#000");
}

void view_account_mark(struct json_writer *w, struct uuid id, slice name, slice mark, slice colour)
{
    char text[UUID_TEXT_LEN + 1];
    uuid_format(id, text);
    json_member_open(w, "account_mark", '{');
    json_member_str(w, "letters", mark.ptr ? mark : slice_first_utf8(name, 2));
    json_member_i64(w, "ground", ground_of(slice_of(text, UUID_TEXT_LEN)));
    json_member_str(w, "fill", colour);
    json_member_str(w, "ink", colour.ptr ? view_ink_on(colour) : SLICE_NONE);
    json_close(w, '}');
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

slice view_user_curl(struct web_request *request)
{
    struct buf out;
    if (!request->user.ptr)
        return SLICE_NONE;
    buf_init(&out, 2048);
    buf_append(&out, SLICE(" -H "));
    append_quoted(&out, arena_printf(&request->serve.op.arena, "Sluice-User: %.*s",
                                     SLICE_ARG(request->user)));
    return arena_take(&request->serve.op.arena, &out);
}

void view_curl(struct web_request *request, struct json_writer *w, const char *key,
               const struct json *body)
{
    struct buf out, text;
    buf_init(&out, WEB_PAGE_BYTES_MAX / 8);
    buf_init(&text, WEB_PAGE_BYTES_MAX / 8);
    if (body)
        json_write_pretty(&text, body);
    buf_append(&out, SLICE("curl "));
    buf_append_cstr(&out, request->web->public_url);
    buf_append(&out, SLICE("/api/executions \\\n  -H \"Authorization: Bearer $SLUICE_KEY\""));
    buf_append(&out, view_user_curl(request));
    buf_append(&out, SLICE(" \\\n  -H 'Content-Type: application/json' \\\n  -d "));
    append_quoted(&out, buf_slice(&text));
    json_member_str(w, key, body && buf_is_ok(&text) ? buf_slice(&out) : SLICE_NONE);
    buf_deinit(&out);
    buf_deinit(&text);
}
