/*
 * Reads the definition of an action's reply, and of the values made from it
 * (contrib/integrations/README.md "response").
 *
 * A 2xx is not enough for a success: a login page, a proxy's error and another API's reply are 2xx,
 * too. `body`, `kind` and `required` define what the action's own reply always has.
 */
#include "catalog/manifest.h"

/* Reads `required`, an array of expressions. */
static void read_required(struct reader *r, struct catalog_reply *reply)
{
    const struct json *array = reader_member(r, "required");
    if (!array)
        return;
    if (!json_is(array, JSON_ARRAY) || array->count == 0 || array->count > CATALOG_REQUIRED_MAX) {
        reader_error(r, "required", "must be an array of 1 to %d expressions such as \"body.id\"",
                     CATALOG_REQUIRED_MAX);
        return;
    }
    reply->required = ARENA_ARRAY(r->arena, const struct expr *, array->count);
    reply->required_texts = ARENA_ARRAY(r->arena, slice, array->count);
    for (uint32_t i = 0; reply->required && reply->required_texts && i < array->count; i++) {
        struct err err;
        slice text = json_str(&array->as.items[i]);
        const struct expr *expr = text.len > 0 ? expr_compile(r->arena, text, &err) : NULL;
        if (text.len == 0)
            reader_error(r, "required", "item %u must be a JMESPath expression in a string", i);
        else if (!expr)
            reader_error(r, "required", "item %u: %s", i, err.text);
        if (!expr)
            continue;
        /* Both arrays have the same indices; texts that did not compile are in neither. */
        reply->required_texts[reply->required_count] = text;
        reply->required[reply->required_count++] = expr;
    }
}

/* Returns false to end the walk: one path `body.x` is enough. */
static bool on_member_of_body(void *user, const slice *names, size_t count)
{
    bool *is_object = user;
    *is_object = *is_object || (count > 1 && slice_eq_cstr(names[0], "body"));
    return !*is_object;
}

static bool requires_a_member(const struct catalog_reply *reply)
{
    bool is_object = false;
    for (size_t i = 0; i < reply->required_count; i++)
        expr_root_names(reply->required[i], on_member_of_body, &is_object);
    return is_object;
}

/* Derives the kind if the manifest does not define it: a required member implies an object, and an
 * output_schema describes the last reply if the output is the whole reply. */
static void derive_kind(struct catalog_reply *reply, const struct catalog_action *action,
                        bool is_last)
{
    slice type = json_get_str(action->output_schema, SLICE("type"));
    bool is_whole = is_last && !action->output;
    reply->is_kind_known = true;
    if (requires_a_member(reply))
        reply->kind = REPLY_KIND_OBJECT;
    else if (is_whole && slice_eq_cstr(type, "object"))
        reply->kind = REPLY_KIND_OBJECT;
    else if (is_whole && slice_eq_cstr(type, "array"))
        reply->kind = REPLY_KIND_ARRAY;
    else
        reply->is_kind_known = false;
}

static void read_reply_check(struct reader *r, struct catalog_reply *reply)
{
    static const char *const bodies[] = {"json", "text", "bytes", "none", "any", NULL};
    static const char *const kinds[] = {"any", "object", "array", NULL};
    reply->body = (enum catalog_reply_body)reader_choice(r, "body", bodies, REPLY_JSON);
    int kind = reader_choice(r, "kind", kinds, -1);
    read_required(r, reply);
    if (kind >= 0 && reply->body != REPLY_JSON)
        reader_error(r, "kind", "needs a JSON body, but \"body\" says \"%s\"", bodies[reply->body]);
    if (kind == REPLY_KIND_ARRAY && requires_a_member(reply))
        reader_error(r, "required", "names a member of an object, but \"kind\" says \"array\"");
    reply->is_kind_known = kind >= 0;
    if (kind >= 0)
        reply->kind = (enum catalog_reply_kind)kind;
}

/* Output, view and pages are read from the last reply, so an earlier response must not have them.
 * They are read nevertheless, so that they are reported by this message and not as unknown
 * members. */
static void refuse_output(struct reader *r)
{
    static const char *const names[] = {"output", "view", "pagination"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (reader_member(r, names[i]))
            reader_error(
                r, names[i],
                "is read from the last reply: it belongs in the last \"response\" of \"then\"");
}

void manifest_read_response(struct reader *parent, struct catalog_action *action,
                            struct catalog_reply *reply, bool is_last)
{
    struct reader r;
    ASSERT(!action->output); /* the output belongs to the last reply, which is read last */
    if (reader_enter(&r, parent, "response")) {
        if (is_last) {
            action->output = reader_expr(&r, "output");
            action->view = reader_expr(&r, "view");
        } else {
            refuse_output(&r);
        }
        read_reply_check(&r, reply);
        if (is_last)
            manifest_read_pages(&r, action);
        reader_finish(&r);
    }
    if (reply->body == REPLY_JSON && !reply->is_kind_known)
        derive_kind(reply, action, is_last);
}
