/*
 * Reads the requests after an action's first (contrib/integrations/README.md "then").
 *
 * Requests run in order, each only after a good reply to the previous one. If one fails, earlier
 * requests may have had lasting effects, which nothing here reverts. The text of the error is made
 * from `done` and `not_done`.
 */
#include "catalog/manifest.h"

/* Reads the texts `done` and `not_done`, or `"done": false`. */
static void read_done(struct reader *r, struct catalog_then *then)
{
    const struct json *done = reader_member(r, "done");
    then->is_done_said = done != NULL;
    if (json_is(done, JSON_BOOL) && !done->as.boolean) {
        if (reader_member(r, "not_done"))
            reader_error(r, "not_done", "has no effect if \"done\" is false");
        return;
    }
    /* "not_done" is read before the checks, so that it counts as known if "done" is missing or
     * wrong. */
    then->not_done = reader_template(r, "not_done");
    if (!done)
        return;
    if (!json_is(done, JSON_STRING) || done->count == 0)
        reader_error(r, "done",
                     "must be text, such as \"The file was uploaded\", or false if the requests "
                     "before this one do nothing that lasts");
    else if (!then->not_done)
        reader_error(
            r, NULL,
            "member \"not_done\" is missing: it says what did not happen, such as \"it was "
            "not posted\"");
    else
        then->done = reader_template(r, "done");
}

static void read_item(struct reader *parent, struct reader_path *path, const struct json *object,
                      struct catalog_action *action, struct catalog_then *then, bool is_last)
{
    struct reader r;
    if (!reader_init(&r, parent, path, object))
        return;
    manifest_read_request(&r, &then->request, true);
    then->source = json_get(object, SLICE("request"));
    manifest_read_response(&r, action, &then->reply, is_last);
    read_done(&r, then);
    bool is_get = slice_eq_cstr(then->request.method, "GET");
    then->is_idempotent = reader_bool(&r, "idempotent", is_get);
    reader_finish(&r);
}

void manifest_read_then(struct reader *parent, struct catalog_action *action)
{
    const struct json *array = reader_member(parent, "then");
    if (!array)
        return;
    if (!json_is(array, JSON_ARRAY) || array->count == 0 || array->count >= CATALOG_REQUESTS_MAX) {
        reader_error(parent, "then", "must be an array of 1 to %d further requests",
                     CATALOG_REQUESTS_MAX - 1);
        return;
    }
    action->then = ARENA_ARRAY(parent->arena, struct catalog_then, array->count);
    for (uint32_t i = 0; action->then && i < array->count; i++) {
        struct reader_path path = {parent->path, SLICE("then"), i};
        read_item(parent, &path, &array->as.items[i], action, &action->then[i],
                  i + 1 == array->count);
        action->then_count++;
    }
}
