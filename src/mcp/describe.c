/*
 * The tool describe_action: what a call needs. The rest, which only few readers want, is added on
 * request.
 */
#include "mcp/describe.h"

#include "json/scan.h"

enum { DETAIL_BYTES_MAX = 4 * 1024 * 1024 };

/* The members that are left out, and the word of `include` that adds them. */
static const struct {
    const char *name, *word;
} extras[] = {
    {"output_schema", "output"},   {"scopes", "scopes"},         {"auth", "scopes"},
    {"schema_version", "version"}, {"input_summary", "version"}, {"tool_name", "version"},
    {"idempotent", "version"},
};

static bool is_included(const struct json *include, slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(extras); i++)
        if (slice_eq_cstr(name, extras[i].name))
            return json_has_text(include, slice_cstr(extras[i].word));
    return true;
}

/* Writes all preconditions except the last, which says how the action was proven. */
static void put_preconditions(struct json_writer *w, slice list)
{
    struct json_scan scan;
    slice key, item;
    size_t left = json_scan_count(list);
    json_scan_open(&scan, list);
    json_open(w, '[');
    while (json_scan_next(&scan, &key, &item) && left-- > 1)
        json_put_raw(w, item);
    json_close(w, ']');
}

static enum op_result reply_lean(struct api_request *request, unsigned status, slice json_text,
                                 struct op *owner)
{
    struct arena *arena = &request->serve.op.arena;
    const struct json *include = json_given(request->arguments, SLICE("include"));
    struct json_text text;
    struct json_scan scan;
    slice key, value;
    if (status != 200)
        return mcp_tool_result.reply(request, status, json_text, owner);
    struct json_writer *w = json_text_begin(&text, DETAIL_BYTES_MAX);
    json_open(w, '{');
    json_scan_open(&scan, json_text);
    while (json_scan_next(&scan, &key, &value)) {
        slice name = json_scan_str(key, arena);
        if (json_scan_type(value) == JSON_NULL || !is_included(include, name))
            continue;
        json_key_slice(w, name);
        if (slice_eq_cstr(name, "preconditions") && !json_has_text(include, SLICE("provenance")))
            put_preconditions(w, value);
        else
            json_put_raw(w, value);
    }
    json_close(w, '}');
    slice lean = json_text_take(&text, arena);
    return lean.ptr ? mcp_tool_result.reply(request, status, lean, owner)
                    : api_reply_no_memory(request);
}

const struct api_envelope mcp_description_result = {.reply = reply_lean};

slice mcp_description_fault(const struct json *arguments)
{
    static const char words[] = "output provenance scopes version";
    const struct json *include = json_given(arguments, SLICE("include"));
    bool is_good = !include || include->type == JSON_ARRAY;
    for (uint32_t i = 0; include && is_good && i < include->count; i++)
        is_good = slice_has_word(slice_cstr(words), json_str(&include->as.items[i]));
    return is_good ? SLICE_NONE
                   : SLICE("include must be a list of output, provenance, scopes or version");
}
