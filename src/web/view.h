/*
 * view: the data of a page, written as the JSON that its file declares in <data>, and the reply
 * that renders them. The writer is that of the interface's replies, so that a page has an object as
 * a client sees it.
 */
#ifndef WEB_VIEW_H
#define WEB_VIEW_H

#include "base/id.h"
#include "web/page.h"

struct view {
    struct json_writer w;
    struct buf text;
};

/* Opens the object; web_reply_view closes it and frees the buffer, view_drop the latter alone. */
struct json_writer *view_begin(struct view *view);
void view_drop(struct view *view);

/* A member, as json_member_str. 0 is null. */
void view_id(struct json_writer *w, const char *key, struct uuid id);
void view_time(struct json_writer *w, const char *key, int64_t wall_us);

/* The page `file` of src/web/pages over these data, to which it adds the frame's. */
enum op_result web_reply_view(struct web_request *request, unsigned status, const char *file,
                              struct view *view);

#endif
