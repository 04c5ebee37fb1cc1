/*
 * Where a call writes; see target.h.
 */
#include "catalog/target.h"

#include <ctype.h>

enum { ID_BYTES_MAX = 300 }; /* the exact input has the rest */

const struct json *target_input_at(const struct json *input, slice path)
{
    while (input && path.len > 0)
        input = json_get(input, slice_split(&path, '.'));
    return input && input->type != JSON_NULL ? input : NULL;
}

bool target_input_is(const struct expr *when, const struct json *input, struct arena *arena)
{
    struct json root = json_object(), value;
    struct expr_budget budget;
    struct err ignored;
    if (!when)
        return true;
    expr_budget_init(&budget);
    json_object_set(arena, &root, SLICE("input"), input ? *input : json_object());
    return expr_eval(when, &root, &root, &budget, arena, &value, &ignored) == OK &&
           expr_is_true(&value);
}

bool target_has_show(const struct catalog_show *show, const struct json *input, struct arena *arena)
{
    return target_input_at(input, show->member) && target_input_is(show->when, input, arena);
}

/* Returns SLICE_NONE for no value. */
static slice id_text(const struct json *value, struct arena *arena)
{
    if (!value || value->type == JSON_NULL)
        return SLICE_NONE;
    if (json_is(value, JSON_STRING))
        return json_str(value);
    slice text = json_text_of(value, arena, 64 * ID_BYTES_MAX);
    return text.ptr ? text : SLICE("(too long to show)");
}

struct mention {
    slice member;
    bool is_found;
};

/* Looks for the member as a whole path: "input.id", but not "input.id_of". */
static bool find_mention(void *user, const struct expr *expr, slice where)
{
    struct mention *mention = user;
    slice rest = expr_source(expr);
    (void)where;
    for (ptrdiff_t at; (at = slice_find(rest, SLICE("input."))) >= 0;) {
        rest = slice_from(rest, (size_t)at + 6);
        slice after = slice_from(rest, mention->member.len);
        bool is_longer = after.len > 0 && (isalnum((unsigned char)after.ptr[0]) ||
                                           after.ptr[0] == '_' || after.ptr[0] == '.');
        mention->is_found |= slice_starts_with(rest, mention->member) && !is_longer;
    }
    return true;
}

/* Returns what the app can say about the id of a place: about the member of the input that the
 * place's expression takes, and that has this value. A member that has the same value by chance
 * gives no name. Returns NULL if there is none. */
static const struct catalog_show *show_of(const struct catalog_action *action,
                                          const struct expr_template *target,
                                          const struct json *input, slice id, struct arena *arena)
{
    for (unsigned i = 0; i < action->show_count; i++) {
        struct mention mention = {.member = action->shows[i].member};
        const struct json *value = target_input_at(input, mention.member);
        if (!slice_eq(id_text(value, arena), id) ||
            !target_has_show(&action->shows[i], input, arena))
            continue;
        expr_template_each_expr(target, find_mention, &mention);
        if (mention.is_found)
            return &action->shows[i];
    }
    return NULL;
}

static void push_target(struct json *list, slice label, slice id, slice name, bool is_unread,
                        struct arena *arena)
{
    struct json target = json_object();
    json_object_set(arena, &target, SLICE("label"), json_string(label));
    json_object_set(arena, &target, SLICE("id"), json_string(slice_first_utf8(id, ID_BYTES_MAX)));
    if (name.len > 0)
        json_object_set(arena, &target, SLICE("name"), json_string(name));
    else if (is_unread)
        json_object_set(arena, &target, SLICE("unread"), json_bool(true));
    json_array_push(arena, list, target);
}

/* There is at least one entry, so that a person sees that the place is not known. */
struct json target_of(const struct catalog_action *action, const struct json *input,
                      const struct json *shows, struct arena *arena)
{
    struct json list = json_array(), root = json_object();
    const struct catalog_pairs *targets = &action->targets;
    json_object_set(arena, &root, SLICE("input"), input ? *input : json_object());
    for (size_t i = 0; i < targets->count; i++) {
        struct expr_budget budget;
        struct json value;
        expr_budget_init(&budget);
        bool is_known = expr_template_eval(targets->items[i].value, &root, 0, &budget, arena,
                                           &value, NULL) == OK;
        slice id = is_known ? id_text(&value, arena) : SLICE("(not known)");
        if (id.len == 0)
            continue;
        const struct catalog_show *show =
            show_of(action, targets->items[i].value, input, id, arena);
        slice name = show ? json_get_str(shows, show->member) : SLICE_NONE;
        push_target(&list, targets->items[i].name, id, name, show != NULL, arena);
    }
    if (list.count == 0 && targets->count > 0)
        push_target(&list, targets->items[0].name, SLICE("(not named in the input)"), SLICE_NONE,
                    false, arena);
    return list;
}

struct json target_unread(const struct catalog_action *action, const struct json *input,
                          const struct json *shows, struct arena *arena)
{
    struct json list = json_array();
    for (unsigned i = 0; i < action->show_count; i++) {
        const struct catalog_show *show = &action->shows[i];
        bool is_read = show->action_id.len == 0 || json_get(shows, show->member);
        if (!is_read && target_has_show(show, input, arena))
            json_array_push(arena, &list, json_string(show->member));
    }
    return list;
}
