/*
 * A flow's result; see result.h.
 */
#include "web/result.h"

#include "web/value.h"

enum { TEXT_BYTES_MAX = 240, URL_BYTES_MAX = 2000 };

/* Returns the output of the last step that has one. */
static const struct json *output_of(const struct json *steps)
{
    const struct json *last = NULL;
    for (size_t i = 0; json_is(steps, JSON_ARRAY) && i < steps->count; i++) {
        const struct json *output = JSON_GET(&steps->as.items[i], "output");
        if (output && output->type != JSON_NULL)
            last = output;
    }
    return last;
}

static bool is_url(const struct json *value)
{
    slice text = json_is(value, JSON_STRING) ? json_str(value) : SLICE_NONE;
    return slice_starts_with(text, SLICE("https://")) && text.len <= URL_BYTES_MAX &&
           slice_find_char(text, ' ') < 0;
}

static void put_facts(struct json_writer *w, const struct json *output)
{
    size_t count = 0;
    json_member_open(w, "facts", '[');
    for (size_t i = 0; json_is(output, JSON_OBJECT) && i < output->count; i++) {
        const struct json *value = &output->as.members[i].value;
        bool is_short = json_is_number(value) || json_is(value, JSON_BOOL) ||
                        (json_is(value, JSON_STRING) && !is_url(value));
        if (!is_short || count++ >= RESULT_FACTS_MAX)
            continue;
        json_open(w, '{');
        value_view_name(w, "name", json_str(&output->as.members[i].key));
        if (json_is(value, JSON_STRING))
            json_member_str(w, "text", slice_first_utf8(json_str(value), TEXT_BYTES_MAX));
        else
            value_view_text(w, "text", value, TEXT_BYTES_MAX);
        json_close(w, '}');
    }
    json_close(w, ']');
}

/* Returns how many more links may be written. */
static size_t put_links(struct json_writer *w, const struct json *value, slice title, size_t left,
                        unsigned depth)
{
    if (left == 0 || depth > VALUE_DEPTH_MAX)
        return left;
    if (is_url(value)) {
        json_open(w, '{');
        json_member_str(w, "title",
                        slice_first_utf8(title.len > 0 ? title : json_str(value), TEXT_BYTES_MAX));
        json_member_str(w, "url", json_str(value));
        json_close(w, '}');
        return left - 1;
    }
    for (size_t i = 0; value->type == JSON_ARRAY && i < value->count; i++)
        left = put_links(w, &value->as.items[i], SLICE_NONE, left, depth + 1);
    slice own = value->type == JSON_OBJECT ? value_headline(value) : SLICE_NONE;
    for (size_t i = 0; value->type == JSON_OBJECT && i < value->count; i++)
        left = put_links(w, &value->as.members[i].value, own, left, depth + 1);
    return left;
}

void result_view(struct json_writer *w, const struct json *steps)
{
    const struct json *output = output_of(steps);
    if (!output) {
        json_member_str(w, "result", SLICE_NONE);
        return;
    }
    json_member_open(w, "result", '{');
    put_facts(w, output);
    json_member_open(w, "links", '[');
    (void)put_links(w, output, SLICE_NONE, RESULT_LINKS_MAX, 0);
    json_close(w, ']');
    json_close(w, '}');
}
