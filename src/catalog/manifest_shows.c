/*
 * `shows` of an action: what ids in its input mean, in words (contrib/integrations/README.md
 * "shows").
 */
#include "catalog/manifest.h"

static void read_show(struct reader *parent, const struct json_member *member,
                      struct catalog_action *action)
{
    struct reader_path outer = {parent->path, SLICE("shows"), -1};
    struct reader_path path = {&outer, json_str(&member->key), -1};
    struct catalog_show *show = &action->shows[action->show_count];
    struct reader r;
    if (!reader_init(&r, parent, &path, &member->value))
        return;
    show->member = json_str(&member->key);
    show->when = reader_expr(&r, "when");
    show->action_id = reader_text(&r, "action");
    show->input = reader_pairs(&r, "input");
    show->text = reader_template(&r, "text");
    show->version = reader_template(&r, "version");
    reader_finish(&r);
    if (!json_is(json_get(r.object, SLICE("text")), JSON_STRING))
        reader_error(&r, "text", "must be a text with at least one ${...}");
    else if (show->text)
        action->show_count++;
}

void manifest_read_shows(struct reader *parent, struct catalog_action *action)
{
    const struct json *object = reader_member(parent, "shows");
    ASSERT(!action->shows); /* read once */
    if (!object)
        return;
    if (object->type != JSON_OBJECT || object->count > CATALOG_SHOWS_MAX) {
        reader_error(parent, "shows", "must be an object of at most %d members", CATALOG_SHOWS_MAX);
        return;
    }
    action->shows = ARENA_ARRAY(parent->arena, struct catalog_show, CATALOG_SHOWS_MAX);
    for (uint32_t i = 0; action->shows && i < object->count; i++)
        read_show(parent, &object->as.members[i], action);
}
