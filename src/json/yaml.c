/*
 * yaml: builds a tree from the events of libyaml; see yaml.h. A container is built in its frame and
 * put into the enclosing container when it ends, so no step recurses.
 *
 * Aliases share the tree of their anchor, so memory stays small; nodes_max limits the cost of walks
 * over the result ("billion laughs": ten aliases of ten aliases, nine times over).
 */
#include "json/yaml.h"

#include <yaml.h>

#include "base/ascii.h"
#include "base/map.h"
#include "base/mem.h"
#include "json/number.h"
#include "json/parse_dup.h"

/* Longer strings of digits stay text. */
enum { ANCHORS_MAX = 100000, NUMBER_BYTES_MAX = 400, KEY_PRINTED_MAX = 60 };

/* A value, how many nodes it expands to, and how deep it nests: 0 for a scalar. */
struct node {
    struct json value;
    size_t nodes, depth;
};

struct frame {
    struct node node;
    slice key, anchor;
    bool has_key;
};

struct reader {
    struct arena *arena;
    struct err *err;
    yaml_parser_t parser;
    struct map anchors; /* struct node, by name */
    struct json_dup_table dups;
    struct frame *frames;
    size_t depth, depth_max, nodes_max, nodes;
    struct json root;
    bool has_root;
};

static slice yaml_text(const yaml_char_t *text)
{
    return text ? slice_cstr((const char *)text) : SLICE_NONE;
}

static int refuse_at(struct reader *reader, const yaml_mark_t *mark, const char *why)
{
    return err_set(reader->err, ERR_SYNTAX, "not accepted: line %zu, column %zu: %s",
                   mark->line + 1, mark->column + 1, why);
}

static int refuse_depth(struct reader *reader)
{
    return err_set(reader->err, ERR_LIMIT, "not accepted: nested deeper than %zu levels",
                   reader->depth_max);
}

static int refuse_yaml_memory(struct reader *reader)
{
    return err_set(reader->err, ERR_NOMEM,
                   "not accepted: the YAML text needs more memory than "
                   "allowed");
}

/* ---- scalars, YAML 1.2.2 10.3.2 ---- */

static bool is_one_of(slice text, const char *const names[3])
{
    for (size_t i = 0; i < 3; i++)
        if (slice_eq_cstr(text, names[i]))
            return true;
    return false;
}

static slice take_digits(slice *text)
{
    size_t len = 0;
    while (len < text->len && ascii_is_digit(text->ptr[len]))
        len++;
    slice digits = slice_first(*text, len);
    *text = slice_from(*text, len);
    return digits;
}

static bool is_either(slice text, char one, char other)
{
    return text.len > 0 && (text.ptr[0] == one || text.ptr[0] == other);
}

/* [-+]? ( . digits | digits ( . digits? )? ) ( [eE] [-+]? digits )?, written as JSON: no plus, no
 * leading zeros, digits on both sides of a point. Returns false if it is not a number. */
static bool read_decimal(struct arena *arena, slice text, struct json *value)
{
    slice rest = slice_from(text, is_either(text, '-', '+'));
    slice whole = take_digits(&rest), part = SLICE_NONE;
    bool has_point = is_either(rest, '.', '.');
    rest = slice_from(rest, has_point);
    if (has_point)
        part = take_digits(&rest);
    slice power = rest;
    if (is_either(rest, 'e', 'E')) {
        rest = slice_from(rest, 1);
        rest = slice_from(rest, is_either(rest, '-', '+'));
        if (take_digits(&rest).len == 0)
            return false;
    }
    if (whole.len + part.len == 0 || rest.len > 0)
        return false;
    while (whole.len > 1 && whole.ptr[0] == '0')
        whole = slice_from(whole, 1);
    whole = whole.len > 0 ? whole : SLICE("0");
    part = part.len > 0 || !has_point ? part : SLICE("0");
    slice number = arena_printf(arena, "%s%.*s%s%.*s%.*s", text.ptr[0] == '-' ? "-" : "",
                                SLICE_ARG(whole), has_point ? "." : "", SLICE_ARG(part),
                                SLICE_ARG(power));
    /* If out of memory, null replaces the value; the caller checks the arena. */
    *value = number.ptr ? json_number_parse(number) : json_null;
    return true;
}

/* 0x1F, 0o17. */
static bool read_based(slice text, struct json *value)
{
    int base = slice_starts_with(text, SLICE("0x"))   ? 16
               : slice_starts_with(text, SLICE("0o")) ? 8
                                                      : 0;
    uint64_t number = 0;
    /* 17: "0x" and 15 digits are 60 bits, which cannot overflow; longer numbers stay text. */
    if (base == 0 || text.len < 3 || text.len > 17)
        return false;
    for (size_t i = 2; i < text.len; i++) {
        char c = text.ptr[i];
        int digit = ascii_hex_value(c);
        if (digit < 0 || digit >= base)
            return false;
        number = number * (uint64_t)base + (uint64_t)digit;
    }
    *value = json_u64(number);
    return true;
}

static struct json plain_value(struct reader *reader, slice text)
{
    static const char *const nulls[] = {"null", "Null", "NULL"};
    static const char *const trues[] = {"true", "True", "TRUE"};
    static const char *const falses[] = {"false", "False", "FALSE"};
    struct json value;
    if (text.len == 0 || slice_eq_cstr(text, "~") || is_one_of(text, nulls))
        return json_null;
    if (is_one_of(text, trues) || is_one_of(text, falses))
        return json_bool(is_one_of(text, trues));
    if (read_based(text, &value))
        return value;
    if (text.len <= NUMBER_BYTES_MAX && read_decimal(reader->arena, text, &value))
        return value;
    return json_string_dup(reader->arena, text);
}

/* ---- the tree ---- */

static int keep_anchor(struct reader *reader, slice name, const struct node *node)
{
    struct node *anchor = name.ptr ? ARENA_NEW(reader->arena, struct node) : NULL;
    if (!name.ptr)
        return OK;
    /* A later anchor of the same name replaces the earlier one (YAML 1.2.2 7.1). */
    if (!anchor || map_put(&reader->anchors, name, anchor, NULL) != OK)
        return refuse_yaml_memory(reader);
    *anchor = *node;
    return OK;
}

/* Adds a complete value to its container, or makes it the root. */
static int put_node(struct reader *reader, const yaml_mark_t *mark, const struct node *node)
{
    reader->nodes += node->nodes;
    /* Checked before it is stored: an alias may expand to millions of nodes, and to any depth. */
    if (reader->nodes > reader->nodes_max)
        return err_set(reader->err, ERR_LIMIT, "not accepted: it expands to more than %zu values",
                       reader->nodes_max);
    if (reader->depth + node->depth > reader->depth_max)
        return refuse_depth(reader);
    if (reader->depth == 0) {
        reader->root = node->value;
        reader->has_root = true;
        return OK;
    }
    struct frame *frame = &reader->frames[reader->depth - 1];
    frame->node.nodes += node->nodes;
    if (frame->node.depth <= node->depth)
        frame->node.depth = node->depth + 1;
    if (frame->node.value.type == JSON_ARRAY) {
        json_array_push(reader->arena, &frame->node.value, node->value);
    } else if (!frame->has_key) {
        return refuse_at(reader, mark, "a key must be a scalar");
    } else {
        json_object_set(reader->arena, &frame->node.value, frame->key, node->value);
        frame->has_key = false;
    }
    return reader->arena->is_exhausted ? refuse_yaml_memory(reader) : OK;
}

static bool is_key(const struct reader *reader)
{
    const struct frame *frame = reader->depth > 0 ? &reader->frames[reader->depth - 1] : NULL;
    return frame && frame->node.value.type == JSON_OBJECT && !frame->has_key;
}

static int take_key(struct reader *reader, const yaml_mark_t *mark, slice text, bool is_plain)
{
    struct frame *frame = &reader->frames[reader->depth - 1];
    if (is_plain && slice_eq_cstr(text, "<<"))
        return refuse_at(reader, mark, "merge keys (<<) are not supported; write the members out");
    frame->key = arena_dup(reader->arena, text);
    frame->has_key = true;
    return frame->key.ptr ? OK : refuse_yaml_memory(reader);
}

static int take_scalar(struct reader *reader, const yaml_event_t *event)
{
    slice text = slice_of((const char *)event->data.scalar.value, event->data.scalar.length);
    slice tag = yaml_text(event->data.scalar.tag), anchor = yaml_text(event->data.scalar.anchor);
    bool is_text = slice_eq_cstr(tag, YAML_STR_TAG);
    bool is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !is_text;
    if (tag.ptr && !is_text && !slice_eq_cstr(tag, "!"))
        return refuse_at(reader, &event->start_mark, "the only supported tag is !!str");
    /* A key is always text, whatever its form: "1: a" has the key "1". */
    if (is_key(reader))
        return take_key(reader, &event->start_mark, text, is_plain);
    struct node node = {.value = is_plain && !tag.ptr ? plain_value(reader, text)
                                                      : json_string_dup(reader->arena, text),
                        .nodes = 1};
    if (reader->arena->is_exhausted)
        return refuse_yaml_memory(reader);
    slice name = anchor.ptr ? arena_dup(reader->arena, anchor) : SLICE_NONE;
    int code = keep_anchor(reader, name, &node);
    return code == OK ? put_node(reader, &event->start_mark, &node) : code;
}

static int take_alias(struct reader *reader, const yaml_event_t *event)
{
    const struct node *anchor = map_get(&reader->anchors, yaml_text(event->data.alias.anchor));
    if (!anchor)
        return refuse_at(reader, &event->start_mark,
                         "an alias of an anchor that does not occur before it");
    if (is_key(reader))
        return json_is(&anchor->value, JSON_STRING)
                   ? take_key(reader, &event->start_mark, json_str(&anchor->value), false)
                   : refuse_at(reader, &event->start_mark, "a key must be text");
    return put_node(reader, &event->start_mark, anchor);
}

static int open_container(struct reader *reader, const yaml_event_t *event, struct json value,
                          const yaml_char_t *anchor, const yaml_char_t *tag)
{
    slice name = yaml_text(anchor);
    if (tag)
        return refuse_at(reader, &event->start_mark, "a mapping or a sequence cannot have a tag");
    if (is_key(reader))
        return refuse_at(reader, &event->start_mark, "a key must be a scalar");
    if (reader->depth == reader->depth_max)
        return refuse_depth(reader);
    /* Copied: libyaml frees the event with its texts. */
    name = name.ptr ? arena_dup(reader->arena, name) : name;
    reader->frames[reader->depth++] =
        (struct frame){.node = {.value = value, .nodes = 1, .depth = 1}, .anchor = name};
    return OK;
}

static int close_container(struct reader *reader, const yaml_event_t *event)
{
    struct frame frame = reader->frames[--reader->depth];
    slice key = SLICE_NONE;
    int code = frame.node.value.type == JSON_OBJECT && frame.node.value.count > 1
                   ? json_dup_fold(&reader->dups, &frame.node.value, &key)
                   : OK;
    if (code == ERR_INVALID)
        return err_set(reader->err, ERR_SYNTAX,
                       "the key \"%.*s\" occurs twice in the mapping that ends at line %zu",
                       SLICE_ARG(slice_first_utf8(key, KEY_PRINTED_MAX)),
                       event->start_mark.line + 1);
    if (code == OK)
        code = keep_anchor(reader, frame.anchor, &frame.node);
    if (code != OK)
        return refuse_yaml_memory(reader);
    /* put_node adds the container's nodes again, but they were counted when they were read */
    reader->nodes -= frame.node.nodes - 1;
    return put_node(reader, &event->start_mark, &frame.node);
}

static int take_event(struct reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return reader->has_root ? refuse_at(reader, &event->start_mark, "a second document") : OK;
    case YAML_SCALAR_EVENT:
        return take_scalar(reader, event);
    case YAML_ALIAS_EVENT:
        return take_alias(reader, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_container(reader, event, json_array(), event->data.sequence_start.anchor,
                              event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return open_container(reader, event, json_object(), event->data.mapping_start.anchor,
                              event->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_container(reader, event);
    default:
        return OK;
    }
}

/* ---- the whole ---- */

static int refuse_syntax(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return refuse_yaml_memory(reader);
    return err_set(reader->err, ERR_SYNTAX, "not valid YAML at line %zu, column %zu: %s",
                   parser->problem_mark.line + 1, parser->problem_mark.column + 1,
                   parser->problem ? parser->problem : "unknown fault");
}

static int read_all(struct reader *reader)
{
    for (bool goes_on = true; goes_on;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&reader->parser, &event))
            return refuse_syntax(reader);
        goes_on = event.type != YAML_STREAM_END_EVENT;
        /* After take_event the event is no longer needed: all texts were copied. */
        int code = take_event(reader, &event);
        yaml_event_delete(&event);
        if (code != OK)
            return code;
    }
    return reader->has_root ? OK : err_set(reader->err, ERR_SYNTAX, "not valid YAML: it is empty");
}

struct json *yaml_parse(struct arena *arena, slice text, size_t depth_max, size_t nodes_max,
                        struct err *err)
{
    struct reader reader = {
        .arena = arena, .err = err, .depth_max = depth_max, .nodes_max = nodes_max};
    struct json *root = ARENA_NEW(arena, struct json);
    reader.frames = mem_calloc(depth_max, sizeof(reader.frames[0]));
    if (!root || !reader.frames || !yaml_parser_initialize(&reader.parser)) {
        mem_free(reader.frames);
        (void)refuse_yaml_memory(&reader);
        return NULL;
    }
    map_init(&reader.anchors, ANCHORS_MAX);
    json_dup_init(&reader.dups);
    /* Without an encoding, libyaml guesses UTF-16 from the first bytes. */
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text.ptr, text.len);
    int code = read_all(&reader);
    /* The tree itself is in the arena; only its root value is copied. */
    *root = reader.root;
    yaml_parser_delete(&reader.parser);
    map_deinit(&reader.anchors);
    json_dup_deinit(&reader.dups);
    mem_free(reader.frames);
    return code == OK ? root : NULL;
}
