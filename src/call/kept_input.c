/*
 * Writing and reading the document of a kept input; see kept_input.h.
 */
#include "call/kept_input.h"

enum {
    DEPTH_MAX = 64,        /* as deep as an input may be */
    STEPS_MAX = 20000,     /* schemas visited for one input: references may multiply them */
    VALUES_MAX = 8192,     /* of an input that is kept: each is looked at, in one turn */
    TEXT_BYTES_MAX = 4096, /* of a message and of a hint */
};

/* ---- members that are not kept ---- */

/* A walk over a schema and a value together. The value is copied where it changes. */
struct hiding {
    const struct json *root;
    struct arena *arena;
    unsigned steps;
    bool is_broken; /* out of memory, or the input or its schema is too large: it is not kept */
};

/* Returns what the schema refers to; NULL: it has no reference. One that is not found could hide
 * anything. */
static const struct json *referred_to(struct hiding *h, const struct json *schema)
{
    slice ref = json_get_str(schema, SLICE("$ref"));
    const struct json *target =
        slice_starts_with(ref, SLICE("#")) ? json_pointer(h->root, slice_from(ref, 1)) : NULL;
    h->is_broken |= ref.ptr && !target;
    return target;
}

static void *copy_of(struct hiding *h, const void *list, size_t bytes)
{
    void *copy = arena_alloc(h->arena, bytes);
    if (copy)
        memcpy(copy, list, bytes);
    h->is_broken |= !copy;
    return copy;
}

static bool hide(struct hiding *h, const struct json *schema, struct json *value, unsigned depth);

static bool hide_in_members(struct hiding *h, const struct json *schema, struct json *object,
                            unsigned depth)
{
    const struct json *properties = JSON_GET(schema, "properties");
    const struct json *patterns = JSON_GET(schema, "patternProperties");
    struct json_member *copy = NULL;
    for (uint32_t i = 0; i < object->count && !h->is_broken; i++) {
        const struct json *of = json_get(properties, json_str(&object->as.members[i].key));
        struct json value = object->as.members[i].value;
        bool is_changed =
            hide(h, of ? of : JSON_GET(schema, "additionalProperties"), &value, depth + 1);
        /* Patterns are not matched against the name: to hide too much does no harm. */
        for (uint32_t k = 0; json_is(patterns, JSON_OBJECT) && k < patterns->count; k++)
            is_changed |= hide(h, &patterns->as.members[k].value, &value, depth + 1);
        if (!is_changed)
            continue;
        if (!copy)
            copy = copy_of(h, object->as.members, object->count * sizeof(*copy));
        if (copy)
            copy[i].value = value;
    }
    if (copy)
        object->as.members = copy;
    return copy != NULL;
}

static bool hide_in_items(struct hiding *h, const struct json *schema, struct json *array,
                          unsigned depth)
{
    const struct json *first = JSON_GET(schema, "prefixItems");
    struct json *copy = NULL;
    for (uint32_t i = 0; i < array->count && !h->is_broken; i++) {
        struct json value = array->as.items[i];
        bool is_first = json_is(first, JSON_ARRAY) && i < first->count;
        if (!hide(h, is_first ? &first->as.items[i] : JSON_GET(schema, "items"), &value, depth + 1))
            continue;
        if (!copy)
            copy = copy_of(h, array->as.items, array->count * sizeof(*copy));
        if (copy)
            copy[i] = value;
    }
    if (copy)
        array->as.items = copy;
    return copy != NULL;
}

/* Replaces what the schema marks writeOnly. Returns whether value has changed. */
static bool hide(struct hiding *h, const struct json *schema, struct json *value, unsigned depth)
{
    static const char *const parts[] = {"allOf", "anyOf", "oneOf"};
    static const char *const others[] = {"if", "then", "else"};
    bool is_changed = false;
    if (!json_is(schema, JSON_OBJECT) || h->is_broken)
        return false;
    h->is_broken = ++h->steps > STEPS_MAX || depth > DEPTH_MAX;
    if (json_get_bool(schema, SLICE("writeOnly"), false)) {
        *value = json_string(SLICE(KEPT_INPUT_HIDDEN));
        return true;
    }
    if (value->type == JSON_OBJECT)
        is_changed = hide_in_members(h, schema, value, depth);
    else if (value->type == JSON_ARRAY)
        is_changed = hide_in_items(h, schema, value, depth);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        const struct json *list = json_get(schema, slice_cstr(parts[i]));
        for (uint32_t k = 0; json_is(list, JSON_ARRAY) && k < list->count; k++)
            is_changed |= hide(h, &list->as.items[k], value, depth + 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        is_changed |= hide(h, json_get(schema, slice_cstr(others[i])), value, depth + 1);
    return hide(h, referred_to(h, schema), value, depth + 1) || is_changed;
}

/* ---- the document ---- */

/* Whether the input has at most *left values. */
static bool has_few_values(const struct json *value, size_t *left)
{
    bool is_object = value->type == JSON_OBJECT;
    if (!is_object && value->type != JSON_ARRAY)
        return true;
    if (value->count > *left)
        return false;
    *left -= value->count;
    for (uint32_t i = 0; i < value->count; i++)
        if (!has_few_values(is_object ? &value->as.members[i].value : &value->as.items[i], left))
            return false;
    return true;
}

/* input: NULL if it is too long. */
static slice write_document(const struct kept_input *what, const struct json *input,
                            struct arena *arena)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, VAULT_PLAIN_MAX);
    json_open(w, '{');
    if (input)
        json_member(w, "input", input);
    if (what->connection_id != 0)
        json_member_i64(w, "connection_id", what->connection_id);
    if (what->message.ptr)
        json_member_str(w, "message", slice_first_utf8(what->message, TEXT_BYTES_MAX));
    if (what->hint.ptr)
        json_member_str(w, "hint", slice_first_utf8(what->hint, TEXT_BYTES_MAX));
    json_close(w, '}');
    return json_text_take(&text, arena);
}

static struct vault_binding binding_of(struct uuid account_id, struct uuid id)
{
    return vault_row_binding(account_id, "execution_input", slice_of(id.bytes, sizeof(id.bytes)));
}

bool kept_input_seal(const struct vault_ring *ring, struct uuid account_id, struct uuid id,
                     const struct kept_input *what, const struct json *schema, struct arena *arena,
                     struct execution_input *row, bool *is_whole)
{
    struct hiding hiding = {.root = schema, .arena = arena};
    const struct vault_binding binding = binding_of(account_id, id);
    struct json input = *what->input;
    struct buf sealed;
    slice text = SLICE_NONE;
    *row = (struct execution_input){0};
    size_t values_left = VALUES_MAX;
    hiding.is_broken = !has_few_values(&input, &values_left);
    if (schema)
        (void)hide(&hiding, schema, &input, 0);
    if (!hiding.is_broken)
        text = write_document(what, &input, arena);
    *is_whole = text.ptr != NULL;
    if (!text.ptr)
        text = write_document(what, NULL, arena);
    if (!text.ptr)
        return false;
    buf_init(&sealed, VAULT_PLAIN_MAX + VAULT_SEAL_OVERHEAD);
    if (vault_seal(ring, &binding, text, &sealed) == OK)
        row->sealed = arena_dup(arena, buf_slice(&sealed));
    buf_deinit(&sealed);
    row->key_id = vault_ring_key_id(ring);
    return row->sealed.ptr != NULL;
}

int kept_input_open(const struct vault_ring *ring, struct uuid account_id, struct uuid id,
                    const struct execution_input *row, struct arena *arena, struct kept_input *out,
                    struct err *err)
{
    const struct vault_binding binding = binding_of(account_id, id);
    struct secret *plain = NULL;
    int status = vault_open(ring, &binding, row->key_id, row->sealed, &plain, err);
    if (status != OK)
        return status;
    slice text = arena_dup(arena, secret_reveal(plain));
    secret_unref(plain);
    const struct json *document = text.ptr ? json_parse(arena, text, &json_limits_provider, NULL)
                                           : NULL;
    if (!document) /* the seal is intact, so only an allocation can fail here */
        return err_set(err, ERR_NOMEM, "out of memory");
    *out = (struct kept_input){
        .input = JSON_GET(document, "input"),
        .connection_id = json_get_i64(document, SLICE("connection_id"), 0),
        .message = json_get_str(document, SLICE("message")),
        .hint = json_get_str(document, SLICE("hint")),
    };
    if (!out->input)
        out->missing = SLICE("too_long");
    return OK;
}

int kept_input_result(const struct pg_query *query, const struct vault_ring *ring,
                      struct uuid account_id, struct uuid id, struct arena *arena,
                      struct kept_input *out)
{
    struct execution_input row;
    struct err err;
    int status = store_execution_input_get_result(query, &row);
    *out = (struct kept_input){.missing = SLICE("not_kept")};
    if (status != OK)
        return status == ERR_NOTFOUND ? OK : status;
    status = kept_input_open(ring, account_id, id, &row, arena, out, &err);
    if (status == OK || status == ERR_NOMEM)
        return status;
    out->missing = SLICE("unreadable");
    return OK;
}

bool kept_input_hides(const struct json *schema, const struct json *input, slice pointer,
                      struct arena *arena)
{
    struct hiding hiding = {.root = schema, .arena = arena};
    struct json masked = *input;
    size_t values_left = VALUES_MAX;
    if (!has_few_values(input, &values_left))
        return true;
    if (!hide(&hiding, schema, &masked, 0))
        return hiding.is_broken;
    const struct json *left = json_pointer(&masked, pointer);
    return hiding.is_broken || (json_pointer(input, pointer) && !left) ||
           slice_eq_cstr(json_str(left), KEPT_INPUT_HIDDEN);
}

bool kept_input_has_hidden(const struct json *schema, const struct json *input, struct arena *arena)
{
    struct hiding hiding = {.root = schema, .arena = arena};
    struct json masked = *input;
    size_t values_left = VALUES_MAX;
    return !has_few_values(input, &values_left) || hide(&hiding, schema, &masked, 0) ||
           hiding.is_broken;
}

bool kept_input_lacks(const struct json *input)
{
    bool is_object = json_is(input, JSON_OBJECT);
    if (json_is(input, JSON_STRING))
        return slice_eq_cstr(json_str(input), KEPT_INPUT_HIDDEN);
    uint32_t count = is_object || json_is(input, JSON_ARRAY) ? input->count : 0;
    for (uint32_t i = 0; i < count; i++)
        if (kept_input_lacks(is_object ? &input->as.members[i].value : &input->as.items[i]))
            return true;
    return false;
}
