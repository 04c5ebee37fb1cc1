/*
 * Search: pages and data sources by their titles.
 */
#include "provider/notion.h"

/* Every word of the query begins a word of the title, whatever its case. */
static bool title_matches(slice title, slice query)
{
    while (query.len) {
        slice word = slice_split(&query, ' ');
        bool is_found = !word.len;
        for (size_t i = 0; i + word.len <= title.len && !is_found; i++) {
            bool is_start = i == 0 || title.ptr[i - 1] == ' ' || title.ptr[i - 1] == '-' ||
                            title.ptr[i - 1] == '(' || title.ptr[i - 1] == '"';
            is_found = is_start && slice_eq_nocase(slice_of(title.ptr + i, word.len), word);
        }
        if (!is_found)
            return false;
    }
    return true;
}

/* The kinds of objects to search for; false: answered. */
static bool read_kind(struct notion_request *request, bool *pages, bool *sources)
{
    const struct json *filter = JSON_GET(request->body, "filter");
    slice value = json_get_str(filter, SLICE("value"));
    *pages = !filter || slice_eq(value, SLICE("page"));
    *sources = !filter || slice_eq(value, SLICE("data_source"));
    if (*pages || *sources)
        return true;
    return notion_invalid(request,
                          "body failed validation: body.filter.value should be `\"page\"` or "
                          "`\"data_source\"`, instead was `\"%.*s\"`.",
                          SLICE_ARG(value));
}

/* Databases are found by their data sources. */
static bool is_wanted(const struct notion_node *node, bool pages, bool sources)
{
    return node->kind == NOTION_PAGE ? pages : node->kind == NOTION_SOURCE && sources;
}

void notion_search(struct notion_request *request)
{
    size_t size, listed = 0;
    slice cursor;
    bool pages, sources;
    if (!notion_page_read(request, false, &size, &cursor) || !read_kind(request, &pages, &sources))
        return;
    struct notion *notion = request->notion;
    const struct notion_node *start = cursor.len ? notion_find(notion, cursor) : NULL;
    if (cursor.len && (!start || start->kind == NOTION_BLOCK)) {
        notion_invalid(request, "The start_cursor provided is invalid: %.*s", SLICE_ARG(cursor));
        return;
    }
    bool is_rising = slice_eq(json_get_str(JSON_GET(request->body, "sort"), SLICE("direction")),
                              SLICE("ascending"));
    slice query = slice_trim(json_get_str(request->body, SLICE("query")));
    const char *next = NULL;
    struct json_writer w = notion_list_open(request);
    const struct list *link = start       ? &start->recent_link
                              : is_rising ? notion->recent.prev
                                          : notion->recent.next;
    for (; link != &notion->recent && !next; link = is_rising ? link->prev : link->next) {
        const struct notion_node *node = LIST_ITEM(link, struct notion_node, recent_link);
        if (!is_wanted(node, pages, sources) || notion_is_gone(node) ||
            !title_matches(notion_title(request->http->arena, node), query))
            continue;
        if (listed == size) {
            next = node->id;
        } else {
            notion_write_object(&w, node, request->http->arena);
            listed++;
        }
    }
    notion_list_close(request, &w, next, "page_or_data_source");
}
