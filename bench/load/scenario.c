/*
 * Scenario files, and the requests made from them.
 */
#include "load/scenario.h"

#include <stdio.h>

#include "base/embed.h"
#include "base/file.h"

enum { SAID_BYTES_MAX = 200 }; /* the quoted length of a wrong reply */

/* ---- texts with ${name} in them ---- */

static int name_index(struct scenario *scenario, slice name)
{
    static const struct {
        const char *name;
        int value;
    } own[] = {{"unique", SCENARIO_UNIQUE},
               {"connection", SCENARIO_CONNECTION},
               {":host", SCENARIO_HOST},
               {":key", SCENARIO_KEY}};
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (slice_eq_cstr(name, own[i].name))
            return own[i].value;
    for (size_t i = 0; i < scenario->name_count; i++)
        if (slice_eq(scenario->names[i], name))
            return (int)i;
    if (scenario->name_count == SCENARIO_VALUES_MAX)
        return -1;
    scenario->names[scenario->name_count] = name;
    return (int)scenario->name_count++;
}

static int add_part(struct scenario_text *text, struct scenario_part part, struct err *err)
{
    if (text->count == SCENARIO_PARTS_MAX)
        return err_set(err, ERR_LIMIT, "over %d placeholders in one text", SCENARIO_PARTS_MAX);
    text->parts[text->count++] = part;
    return OK;
}

/* Reads "name" or "unique%COUNT". */
static int read_name(struct scenario *scenario, slice name, struct scenario_part *part,
                     struct err *err)
{
    slice count = name, word = slice_split(&count, '%');
    part->value = name_index(scenario, word);
    if (part->value == -1)
        return err_set(err, ERR_LIMIT, "over %d names", SCENARIO_VALUES_MAX);
    if (count.ptr && (part->value != SCENARIO_UNIQUE ||
                      !slice_to_u64(count, UINT32_MAX, &part->count) || part->count == 0))
        return err_set(err, ERR_SYNTAX, "${%.*s} is neither a name nor unique%%COUNT",
                       SLICE_ARG(name));
    return OK;
}

/* source must live as long as the scenario. */
static int compile_text(struct scenario *scenario, slice source, struct scenario_text *text,
                        struct err *err)
{
    text->count = 0;
    for (;;) {
        ptrdiff_t at = slice_find(source, SLICE("${"));
        if (at < 0)
            return add_part(text, (struct scenario_part){source, -1, 0}, err);
        slice rest = slice_from(source, (size_t)at + 2);
        ptrdiff_t end = slice_find_char(rest, '}');
        if (end < 0)
            return err_set(err, ERR_SYNTAX, "a ${ without its }");
        struct scenario_part part = {.literal = slice_first(source, (size_t)at)};
        int status = read_name(scenario, slice_first(rest, (size_t)end), &part, err);
        if (status == OK)
            status = add_part(text, part, err);
        if (status != OK)
            return status;
        source = slice_from(rest, (size_t)end + 1);
    }
}

static void write_text(const struct scenario_text *text, const struct scenario_context *context,
                       struct buf *out)
{
    for (size_t i = 0; i < text->count; i++) {
        const struct scenario_part *part = &text->parts[i];
        buf_append(out, part->literal);
        if (part->value == SCENARIO_UNIQUE)
            buf_append_u64(out, part->count ? context->unique % part->count : context->unique);
        else if (part->value == SCENARIO_CONNECTION)
            buf_append_u64(out, context->connection);
        else if (part->value == SCENARIO_HOST)
            buf_append(out, context->host);
        else if (part->value == SCENARIO_KEY)
            buf_append(out, context->key);
        else if (part->value >= 0)
            buf_append(
                out, slice_of(context->values[part->value].text, context->values[part->value].len));
    }
}

/* ---- files ---- */

/* The text of struct scenario_step.head. */
static slice head_text(struct scenario *scenario, const struct json *from, slice method, slice path)
{
    const struct json *headers = JSON_GET(from, "headers");
    struct buf out;
    buf_init(&out, SCENARIO_BYTES_MAX);
    buf_printf(&out, "%.*s %.*s HTTP/1.1\r\nHost: ${:host}\r\nAuthorization: Bearer ${:key}\r\n",
               SLICE_ARG(method), SLICE_ARG(path));
    for (size_t i = 0; json_is(headers, JSON_OBJECT) && i < headers->count; i++)
        buf_printf(&out, "%.*s: %.*s\r\n", SLICE_ARG(json_str(&headers->as.members[i].key)),
                   SLICE_ARG(json_str(&headers->as.members[i].value)));
    buf_append_cstr(&out, JSON_GET(from, "body")
                              ? "Content-Type: application/json\r\nContent-Length: "
                              : "\r\n");
    return arena_take(&scenario->arena, &out);
}

static int read_captures(struct scenario *scenario, const struct json *captures,
                         struct scenario_step *step, struct err *err)
{
    for (size_t i = 0; json_is(captures, JSON_OBJECT) && i < captures->count; i++) {
        int value = name_index(scenario, json_str(&captures->as.members[i].key));
        if (value < 0 || step->capture_count == SCENARIO_VALUES_MAX)
            return err_set(err, ERR_LIMIT, "over %d captured names", SCENARIO_VALUES_MAX);
        step->captures[step->capture_count++] =
            (struct scenario_capture){value, json_str(&captures->as.members[i].value)};
    }
    return OK;
}

static int read_step(struct scenario *scenario, const struct json *from, struct scenario_step *step,
                     struct err *err)
{
    slice path = json_get_str(from, SLICE("path")), method = json_get_str(from, SLICE("method"));
    const struct json *until = JSON_GET(from, "until"), *body = JSON_GET(from, "body");
    if (!path.ptr || !method.ptr)
        return err_set(err, ERR_INVALID, "every step has a method and a path");
    step->expect = (unsigned)json_get_i64(from, SLICE("expect"), 200);
    step->until_pointer = json_get_str(until, SLICE("pointer"));
    step->until_text = json_get_str(until, SLICE("is"));
    step->fail_text = json_get_str(until, SLICE("fails_with"));
    if (until && (!step->until_pointer.ptr || !step->until_text.ptr))
        return err_set(err, ERR_INVALID, "until has a pointer and the text that it waits for (is)");
    int status = compile_text(scenario, head_text(scenario, from, method, path), &step->head, err);
    if (status == OK && body)
        status = compile_text(scenario, json_text_of(body, &scenario->arena, SCENARIO_BYTES_MAX),
                              &step->body, err);
    if (status == OK)
        status = read_captures(scenario, JSON_GET(from, "capture"), step, err);
    return status;
}

static bool names_connection(const struct scenario_text *text)
{
    for (size_t i = 0; i < text->count; i++)
        if (text->parts[i].value == SCENARIO_CONNECTION)
            return true;
    return false;
}

/* A value captured by prepare is the same for all connections. A request that is sent for each
 * connection has no such single value, so it may not capture one. */
static int mark_each(struct scenario *scenario, struct err *err)
{
    for (size_t i = 0; i < scenario->prepare_count; i++) {
        struct scenario_step *step = &scenario->prepare[i];
        step->is_each = names_connection(&step->head) || names_connection(&step->body);
        if (step->is_each && step->capture_count > 0)
            return err_set(err, ERR_INVALID,
                           "prepare captures nothing from a request that names ${connection}");
    }
    return OK;
}

static int read_steps(struct scenario *scenario, const struct json *from,
                      struct scenario_step *steps, size_t *count, struct err *err)
{
    if (from && (!json_is(from, JSON_ARRAY) || from->count > SCENARIO_STEPS_MAX))
        return err_set(err, ERR_INVALID, "steps and prepare are arrays of at most %d requests",
                       SCENARIO_STEPS_MAX);
    for (size_t i = 0; from && i < from->count; i++) {
        int status = read_step(scenario, &from->as.items[i], &steps[i], err);
        if (status != OK)
            return status;
        *count = i + 1;
    }
    return OK;
}

static int compile_scenario(struct scenario *scenario, slice text, struct err *err)
{
    const struct json *root = json_parse(&scenario->arena, text, &json_limits_request, err);
    if (!root)
        return ERR_SYNTAX;
    scenario->name = json_get_str(root, SLICE("name"));
    scenario->description = json_get_str(root, SLICE("description"));
    int status = read_steps(scenario, JSON_GET(root, "prepare"), scenario->prepare,
                            &scenario->prepare_count, err);
    if (status == OK)
        status = mark_each(scenario, err);
    if (status == OK)
        status = read_steps(scenario, JSON_GET(root, "steps"), scenario->steps,
                            &scenario->step_count, err);
    if (status == OK && scenario->step_count == 0)
        status = err_set(err, ERR_INVALID, "a scenario has at least one step");
    if (status == OK && !scenario->name.ptr)
        status = err_set(err, ERR_INVALID, "a scenario has a name");
    return status;
}

static const struct embed_file *find_embedded(const char *name)
{
    char file[128];
    (void)snprintf(file, sizeof(file), "%s.json", name);
    for (size_t i = 0; i < embed_scenarios_count; i++)
        if (strcmp(embed_scenarios[i].name, file) == 0)
            return &embed_scenarios[i];
    return NULL;
}

int scenario_load(struct scenario *scenario, const char *name, struct err *err)
{
    struct buf text;
    struct err inner;
    int status = OK;
    *scenario = (struct scenario){0};
    arena_init(&scenario->arena, 16 * SCENARIO_BYTES_MAX);
    buf_init(&text, SCENARIO_BYTES_MAX);
    const struct embed_file *embedded = find_embedded(name);
    if (embedded)
        buf_append(&text, slice_of(embedded->data, embedded->len));
    else if (strchr(name, '/') || strstr(name, ".json"))
        status = file_read_into(name, &text, NULL, err);
    else
        status = err_set(err, ERR_NOTFOUND, "no scenario %s: see --list, or name a file", name);
    if (status == OK) {
        status = compile_scenario(scenario, buf_slice(&text), &inner);
        if (status != OK)
            (void)err_set(err, status, "scenario %s: %s", name, inner.text);
    }
    buf_deinit(&text);
    return status;
}

void scenario_deinit(struct scenario *scenario)
{
    arena_deinit(&scenario->arena);
}

void scenario_print_all(void)
{
    for (size_t i = 0; i < embed_scenarios_count; i++) {
        struct scenario scenario;
        char name[128];
        (void)snprintf(name, sizeof(name), "%.*s", (int)strlen(embed_scenarios[i].name) - 5,
                       embed_scenarios[i].name);
        if (scenario_load(&scenario, name, NULL) == OK)
            printf("  %-18s %.*s\n", name, SLICE_ARG(scenario.description));
        scenario_deinit(&scenario);
    }
}

/* Values are inserted into JSON texts and paths unescaped. */
static int take_value(struct scenario_value *value, slice text, struct err *err)
{
    if (text.len >= SCENARIO_VALUE_BYTES_MAX)
        return err_set(err, ERR_LIMIT, "a value is at most %d bytes long",
                       SCENARIO_VALUE_BYTES_MAX - 1);
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] <= ' ' || text.ptr[i] > '~' || strchr("\"\\", text.ptr[i]))
            return err_set(err, ERR_INVALID, "a value of visible ASCII without quotes is needed");
    memcpy(value->text, text.ptr, text.len);
    value->len = text.len;
    return OK;
}

int scenario_set(struct scenario *scenario, slice name, slice text, struct err *err)
{
    for (size_t i = 0; i < scenario->name_count; i++)
        if (slice_eq(scenario->names[i], name))
            return take_value(&scenario->values[i], text, err);
    return OK;
}

static int check_text(const struct scenario *scenario, const struct scenario_text *text,
                      const bool *is_known, struct err *err)
{
    for (size_t i = 0; i < text->count; i++) {
        int value = text->parts[i].value;
        if (value >= 0 && !is_known[value])
            return err_set(err, ERR_INVALID, "scenario %.*s needs a value: --var %.*s=...",
                           SLICE_ARG(scenario->name), SLICE_ARG(scenario->names[value]));
    }
    return OK;
}

static int check_steps(const struct scenario *scenario, const struct scenario_step *steps,
                       size_t count, bool *is_known, struct err *err)
{
    int status = OK;
    for (size_t i = 0; status == OK && i < count; i++) {
        status = check_text(scenario, &steps[i].head, is_known, err);
        if (status == OK)
            status = check_text(scenario, &steps[i].body, is_known, err);
        for (size_t c = 0; c < steps[i].capture_count; c++)
            is_known[steps[i].captures[c].value] = true;
    }
    return status;
}

int scenario_check(const struct scenario *scenario, struct err *err)
{
    bool is_known[SCENARIO_VALUES_MAX];
    for (size_t i = 0; i < SCENARIO_VALUES_MAX; i++)
        is_known[i] = scenario->values[i].len > 0;
    int status = check_steps(scenario, scenario->prepare, scenario->prepare_count, is_known, err);
    return status == OK
               ? check_steps(scenario, scenario->steps, scenario->step_count, is_known, err)
               : status;
}

/* ---- requests and replies ---- */

void scenario_write(const struct scenario_step *step, const struct scenario_context *context,
                    struct buf *out)
{
    write_text(&step->head, context, out);
    if (!step->body.count)
        return;
    /* the length comes before the body, which has not been written yet, so a gap of fixed width is
     * left for it */
    size_t gap = out->len;
    buf_append(out, SLICE("0000000\r\n\r\n"));
    size_t begin = out->len;
    write_text(&step->body, context, out);
    if (!buf_is_ok(out))
        return;
    char digits[8];
    (void)snprintf(digits, sizeof(digits), "%07zu", (out->len - begin) % 10000000);
    memcpy(out->ptr + gap, digits, 7);
}

bool scenario_reads_body(const struct scenario_step *step)
{
    return step->capture_count > 0 || step->until_pointer.ptr;
}

enum scenario_verdict scenario_check_reply(const struct scenario_step *step, unsigned status,
                                           slice body, struct scenario_value *values,
                                           struct arena *arena, struct err *why)
{
    if (status != step->expect) {
        slice text = slice_first(body, body.len < SAID_BYTES_MAX ? body.len : SAID_BYTES_MAX);
        (void)err_set(why, ERR_INVALID, "status %u instead of %u%s%.*s", status, step->expect,
                      text.len ? ": " : "", SLICE_ARG(text));
        return SCENARIO_WRONG;
    }
    if (!scenario_reads_body(step))
        return SCENARIO_GO_ON;
    const struct json *reply = json_parse(arena, body, &json_limits_provider, why);
    if (!reply)
        return SCENARIO_WRONG;
    for (size_t i = 0; i < step->capture_count; i++) {
        const struct scenario_capture *capture = &step->captures[i];
        slice text = json_str(json_pointer(reply, capture->pointer));
        if (!text.ptr || take_value(&values[capture->value], text, why) != OK) {
            (void)err_set(why, ERR_NOTFOUND, "no text at %.*s", SLICE_ARG(capture->pointer));
            return SCENARIO_WRONG;
        }
    }
    if (!step->until_pointer.ptr)
        return SCENARIO_GO_ON;
    slice found = json_str(json_pointer(reply, step->until_pointer));
    if (slice_eq(found, step->until_text))
        return SCENARIO_GO_ON;
    if (step->fail_text.ptr && slice_eq(found, step->fail_text)) {
        (void)err_set(why, ERR_INVALID, "%.*s is %.*s", SLICE_ARG(step->until_pointer),
                      SLICE_ARG(found));
        return SCENARIO_WRONG;
    }
    return SCENARIO_AGAIN;
}
