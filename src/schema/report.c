/*
 * schema_report: the report itself: entering a violation with its pointer and location, and writing
 * it all out. Runs only for invalid instances, so its cost is bounded by fuel (FUEL_VIOLATION)
 * rather than avoided.
 */
#include "schema/report.h"

#include "base/mem.h"

enum {
    TEXT_BYTES_MAX = 2000,
    POINTER_BYTES_MAX = 8192,
};

void schema_report_init(struct schema_report *report, struct arena *arena, slice prefix)
{
    *report = (struct schema_report){.arena = arena, .prefix = prefix};
}

/* ---- entering ---- */

static void write_path(struct buf *out, const struct schema_path *path)
{
    if (!path)
        return;
    /* Recursion writes the root first; paths are at most SCHEMA_DEPTH_MAX long. */
    write_path(out, path->parent);
    if (path->key)
        json_pointer_append_key(out, json_str(path->key));
    else
        json_pointer_append_index(out, path->index);
}

static slice pointer_of(struct schema_report *report, const struct schema_path *path)
{
    struct buf text;
    buf_init(&text, POINTER_BYTES_MAX);
    buf_append(&text, report->prefix);
    write_path(&text, path);
    slice pointer = arena_dup(report->arena, buf_slice(&text));
    buf_deinit(&text);
    return pointer;
}

static slice location_of(const struct schema_run *run, const struct schema_node *node,
                         slice keyword)
{
    if (!node)
        return SLICE("#");
    const struct schema_document *document = node->resource->document;
    struct buf text;
    buf_init(&text, POINTER_BYTES_MAX);
    /* The first document has no URI in front: it is the one that the caller knows. */
    if (document != run->schema->document)
        buf_append(&text, document->uri);
    schema_location_write(&text, document->root, node->source, keyword);
    slice location = arena_dup(run->report->arena, buf_slice(&text));
    buf_deinit(&text);
    return location;
}

/* A subschema that is applied twice says the same thing twice. */
static bool is_reported(const struct schema_report *report,
                        const struct schema_violation *violation)
{
    for (size_t i = 0; i < report->count; i++) {
        if (slice_eq(report->violations[i].pointer, violation->pointer) &&
            slice_eq(report->violations[i].message, violation->message))
            return true;
    }
    return false;
}

bool schema_report_enter(struct schema_run *run, const struct schema_at *at, slice keyword,
                         slice message, slice hint)
{
    struct schema_report *report = run->report;
    struct schema_violation made = {
        .pointer = pointer_of(report, at->path),
        .keyword = keyword,
        .message = slice_first_utf8(message, TEXT_BYTES_MAX),
        .hint = hint,
    };
    /* Before the check whether it is new: the text was made, and making it is the cost. */
    (void)schema_spend(run, FUEL_VIOLATION);
    if (report->arena->is_exhausted || report->count == run->violations_max) {
        report->is_cut = true;
    } else if (!is_reported(report, &made)) {
        /* Last, since the search for the location is the most expensive part. */
        made.location = location_of(run, at->node, keyword);
        report->violations[report->count++] = made;
    }
    return false;
}

void schema_report_stop(struct schema_run *run)
{
    const struct schema_at root = {.node = NULL};
    const char *what = run->is_known_invalid
                           ? "does not match its schema, and the reasons cannot be listed"
                           : "cannot be checked";
    if (run->report && run->stop_reason)
        (void)schema_report_enter(
            run, &root, SLICE("limit"),
            arena_printf(run->report->arena, "%s: %s", what, run->stop_reason), SLICE_NONE);
}

/* ---- writing ---- */

void schema_report_write(const struct schema_report *report, struct buf *out)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct schema_violation *violation = &report->violations[i];
        if (i > 0)
            buf_append(out, SLICE("; "));
        buf_append(out, violation->pointer.len ? violation->pointer : SLICE("(root)"));
        buf_append(out, SLICE(": "));
        buf_append(out, violation->message);
    }
    /* The list is not complete; a reader must not take it for all that is wrong. */
    if (report->is_cut)
        buf_append(out, SLICE("; and more"));
}

void schema_report_write_hints(const struct schema_report *report, struct buf *out)
{
    bool has_some = false;
    for (size_t i = 0; i < report->count; i++) {
        if (report->violations[i].hint.len == 0)
            continue;
        if (has_some)
            buf_append(out, SLICE("; "));
        buf_append(out, report->violations[i].hint);
        has_some = true;
    }
}
