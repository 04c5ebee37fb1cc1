/*
 * Data of pages; see view.h.
 */
#include "web/view.h"

#include "base/clock.h"

struct json_writer *view_begin(struct view *view)
{
    buf_init(&view->text, WEB_PAGE_BYTES_MAX);
    json_begin(&view->w, &view->text);
    json_open(&view->w, '{');
    return &view->w;
}

void view_drop(struct view *view)
{
    buf_deinit(&view->text);
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
