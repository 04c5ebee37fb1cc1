/*
 * Reads a manifest by type; see reader.h. Getters never stop the pass: they report and return a
 * default, so that all faults of a file are reported at once. Names of members are string constants
 * of the callers, so only pointers to them are stored.
 */
#include "catalog/reader.h"

#include "base/ascii.h"
#include "base/suggest.h"

enum { READER_MEMBERS_MAX = 40 };

/* ---- positions ---- */

static void write_path(struct buf *out, const struct reader_path *path)
{
    if (!path)
        return;
    write_path(out, path->parent);
    if (path->name.len > 0)
        json_pointer_append_key(out, path->name);
    if (path->index >= 0)
        buf_printf(out, "/%td", path->index);
}

PRINTF_LIKE(4, 0)
static void put_finding(const struct reader *r, bool is_warning, const char *name, const char *fmt,
                        va_list args)
{
    struct buf pointer, text;
    ASSERT(!name || name[0] != '/'); /* the slash before it is added here */
    buf_init(&pointer, 4096);
    buf_init(&text, 4096);
    write_path(&pointer, r->path);
    if (name)
        buf_printf(&pointer, "/%s", name);
    if (r->about.len > 0)
        buf_printf(&text, "%.*s: ", SLICE_ARG(r->about));
    buf_vprintf(&text, fmt, args);
    catalog_report_add(r->report, is_warning, r->source, buf_slice(&pointer), "%.*s",
                       SLICE_ARG(buf_slice(&text)));
    buf_deinit(&pointer);
    buf_deinit(&text);
}

void reader_error(const struct reader *r, const char *name, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put_finding(r, false, name, fmt, args);
    va_end(args);
}

void reader_warning(const struct reader *r, const char *name, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put_finding(r, true, name, fmt, args);
    va_end(args);
}

/* ---- members ---- */

bool reader_init(struct reader *r, const struct reader *parent, struct reader_path *path,
                 const struct json *object)
{
    ASSERT(parent->report && parent->arena); /* a linter's reader may not have them */
    *r = (struct reader){.report = parent->report,
                         .arena = parent->arena,
                         .source = parent->source,
                         .about = parent->about,
                         .object = object,
                         .path = path};
    if (json_is(object, JSON_OBJECT))
        return true;
    reader_error(r, NULL, "must be an object, got %s", json_type_name(object));
    return false;
}

bool reader_enter(struct reader *r, struct reader *parent, const char *name)
{
    const struct json *object = reader_member(parent, name);
    struct reader_path path = {parent->path, slice_cstr(name), -1};
    bool is_entered = object && reader_init(r, parent, &path, object);
    r->entered = path;
    r->path = &r->entered;
    return is_entered;
}

const struct json *reader_member(struct reader *r, const char *name)
{
    /* The names are in the source, so exceeding the limit is a bug of this program, never of a
     * manifest. */
    ASSERT(r->known_count < READER_MEMBERS_MAX);
    r->known[r->known_count++] = name;
    return json_get(r->object, slice_cstr(name));
}

static bool is_readable_member(const struct reader *r, slice name)
{
    for (size_t i = 0; i < r->known_count; i++)
        if (slice_eq_cstr(name, r->known[i]))
            return true;
    return false;
}

void reader_finish(struct reader *r)
{
    for (uint32_t i = 0; json_is(r->object, JSON_OBJECT) && i < r->object->count; i++) {
        slice name = json_str(&r->object->as.members[i].key);
        /* An unknown member is an error, not a warning: a misspelled "requires_confirmation"
         * would have no effect, and nothing would reveal it. */
        if (is_readable_member(r, name))
            continue;
        struct suggest near;
        suggest_begin(&near, name);
        for (size_t j = 0; j < r->known_count; j++)
            suggest_offer(&near, slice_cstr(r->known[j]));
        slice excerpt = json_excerpt(name, &r->report->arena);
        if (near.best.len > 0)
            reader_error(r, NULL, "unknown member \"%.*s\"; did you mean \"%.*s\"?",
                         SLICE_ARG(excerpt), SLICE_ARG(near.best));
        else
            reader_error(r, NULL, "unknown member \"%.*s\"", SLICE_ARG(excerpt));
    }
}

/* ---- scalars ---- */

slice reader_text(struct reader *r, const char *name)
{
    const struct json *value = reader_member(r, name);
    if (value && value->type != JSON_STRING)
        reader_error(r, name, "must be a string, got %s", json_type_name(value));
    return json_str(value);
}

slice reader_text_required(struct reader *r, const char *name)
{
    const struct json *value = reader_member(r, name);
    if (!value)
        reader_error(r, NULL, "member \"%s\" is missing", name);
    else if (value->type != JSON_STRING || value->count == 0)
        reader_error(r, name, "must be a non-empty string");
    return json_str(value);
}

bool reader_bool(struct reader *r, const char *name, bool fallback)
{
    const struct json *value = reader_member(r, name);
    if (value && value->type != JSON_BOOL)
        reader_error(r, name, "must be true or false, got %s", json_type_name(value));
    return json_is(value, JSON_BOOL) ? value->as.boolean : fallback;
}

uint64_t reader_count(struct reader *r, const char *name, uint64_t max)
{
    const struct json *value = reader_member(r, name);
    int64_t number = 0;
    if (!value)
        return 0;
    /* 0 means "not given" to most callers, like a missing member, so it is a legal count. */
    if (!json_to_i64(value, &number) || number < 0 || (uint64_t)number > max) {
        reader_error(r, name, "must be a whole number from 0 to %llu", (unsigned long long)max);
        return 0;
    }
    return (uint64_t)number;
}

double reader_number(struct reader *r, const char *name, double max)
{
    const struct json *value = reader_member(r, name);
    if (!value)
        return 0;
    double number = json_to_double(value);
    if (!json_is_number(value) || number < 0 || number > max) {
        reader_error(r, name, "must be a number from 0 to %g", max);
        return 0;
    }
    return number;
}

int reader_choice(struct reader *r, const char *name, const char *const *names, int fallback)
{
    const struct json *value = reader_member(r, name);
    if (!value)
        return fallback;
    /* The list is only for the message; it is built while the names are compared. */
    struct buf list;
    buf_init(&list, 1024);
    for (int i = 0; names[i]; i++) {
        if (slice_eq_cstr(json_str(value), names[i])) {
            buf_deinit(&list);
            return i;
        }
        buf_printf(&list, "%s\"%s\"", i ? ", " : "", names[i]);
    }
    reader_error(r, name, "must be one of %.*s", SLICE_ARG(buf_slice(&list)));
    buf_deinit(&list);
    return fallback;
}

const struct json *reader_texts(struct reader *r, const char *name)
{
    const struct json *value = reader_member(r, name);
    if (!value)
        return NULL;
    bool is_good = value->type == JSON_ARRAY;
    for (uint32_t i = 0; is_good && i < value->count; i++)
        is_good = value->as.items[i].type == JSON_STRING;
    if (!is_good)
        reader_error(r, name, "must be an array of strings");
    return is_good ? value : NULL;
}

bool reader_is_id(slice text, size_t max)
{
    if (text.len == 0 || text.len > max || !ascii_is_lower(text.ptr[0]))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!(ascii_is_lower(c) || ascii_is_digit(c) || c == '_'))
            return false;
    }
    return true;
}

/* ---- compiled things ---- */

const struct expr *reader_expr(struct reader *r, const char *name)
{
    const struct json *value = reader_member(r, name);
    if (!value || value->type == JSON_NULL)
        return NULL;
    struct err err;
    const struct expr *expr = NULL;
    if (value->type != JSON_STRING)
        reader_error(r, name, "must be a JMESPath expression in a string");
    else if (!(expr = expr_compile(r->arena, json_str(value), &err)))
        reader_error(r, name, "%s", err.text);
    return expr;
}

static const struct expr_template *compile_template(struct reader *r, const char *name,
                                                    const struct json *tree)
{
    struct err err;
    const struct expr_template *tmpl = expr_template_compile(r->arena, tree, &err);
    if (!tmpl)
        reader_error(r, name, "%s", err.text);
    return tmpl;
}

const struct expr_template *reader_template(struct reader *r, const char *name)
{
    const struct json *value = reader_member(r, name);
    return value ? compile_template(r, name, value) : NULL;
}

struct catalog_pairs reader_pairs(struct reader *r, const char *name)
{
    const struct json *value = reader_member(r, name);
    struct catalog_pairs pairs = {NULL, 0};
    if (!value)
        return pairs;
    if (value->type != JSON_OBJECT || value->count > CATALOG_PAIRS_MAX) {
        reader_error(r, name, "must be an object of at most %d members", CATALOG_PAIRS_MAX);
        return pairs;
    }
    pairs.items = ARENA_ARRAY(r->arena, struct catalog_pair, value->count);
    for (uint32_t i = 0; pairs.items && i < value->count; i++) {
        struct json_member *member = &value->as.members[i];
        struct catalog_pair *pair = &pairs.items[pairs.count];
        pair->name = json_str(&member->key);
        pair->value = compile_template(r, name, &member->value);
        if (pair->value)
            pairs.count++;
    }
    return pairs;
}

const struct schema *reader_schema(struct reader *r, const char *name, const struct json **document)
{
    const struct json *value = reader_member(r, name);
    *document = json_is(value, JSON_NULL) ? NULL : value;
    if (!*document)
        return NULL;
    struct err err;
    /* Formats are asserted: by default JSON Schema 2020-12 treats them as annotations, but a
     * call with an invalid date should fail here, not at the provider. */
    const struct schema *schema = schema_compile(r->arena, value, true, &err);
    if (!schema)
        reader_error(r, name, "%s", err.text);
    return schema;
}
