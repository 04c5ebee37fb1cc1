/*
 * Where a call writes; see target.h.
 */
#include "catalog/target.h"

enum { ID_BYTES_MAX = 300 }; /* the exact input has the rest */

const struct json *target_input_at(const struct json *input, slice path)
{
    while (input && path.len > 0)
        input = json_get(input, slice_split(&path, '.'));
    return input && input->type != JSON_NULL ? input : NULL;
}

static slice id_text(const struct json *value, struct arena *arena)
{
    if (!value || value->type == JSON_NULL)
        return SLICE_NONE;
    return json_is(value, JSON_STRING) ? json_str(value)
                                       : json_text_of(value, arena, 64 * ID_BYTES_MAX);
}

/* An id has the name of the member of the input that has this value. */
static slice name_of_id(slice id, const struct json *input, const struct json *shows,
                        struct arena *arena)
{
    for (uint32_t i = 0; json_is(shows, JSON_OBJECT) && i < shows->count; i++) {
        const struct json_member *show = &shows->as.members[i];
        const struct json *value = target_input_at(input, json_str(&show->key));
        if (value && slice_eq(id_text(value, arena), id))
            return json_str(&show->value);
    }
    return SLICE_NONE;
}

/* Whether the app could say what a member of the input with this value means. */
static bool has_name(const struct catalog_action *action, const struct json *input, slice id,
                     struct arena *arena)
{
    for (unsigned i = 0; i < action->show_count; i++) {
        const struct json *value = target_input_at(input, action->shows[i].member);
        if (value && slice_eq(id_text(value, arena), id))
            return true;
    }
    return false;
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

/* A person must see that the place is not known: so there is at least one entry. */
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
        if (id.len > 0)
            push_target(&list, targets->items[i].name, id, name_of_id(id, input, shows, arena),
                        has_name(action, input, id, arena), arena);
    }
    if (list.count == 0 && targets->count > 0)
        push_target(&list, targets->items[0].name, SLICE("(not named in the input)"), SLICE_NONE,
                    false, arena);
    return list;
}
