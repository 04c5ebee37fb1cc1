/*
 * Routes as tools; see words.h.
 */
#include "mcp/words.h"

#include "base/ascii.h"
#include "json/scan.h"

enum { DEPTH_MAX = 6 };

/* A segment `*` matches anything. Other routes have no tool. */
static const struct {
    const char *route, *words;
} routes[] = {
    {"GET /api/integrations", "list_apps"},
    {"GET /api/search", "search_actions"},
    {"GET /api/actions", "search_actions"},
    {"GET /api/actions/*/*", "describe_action"},
    {"GET /api/executions", "history"},
    {"POST /api/executions", "run_action"},
    {"POST /api/tools/*/execute", "run_action"},
    {"GET /api/executions/*", "read_result with execution_id *"},
    {"GET /api/connections", "list_connections"},
    {"POST /api/connect/sessions", "connect_app"},
    {"GET /api/connect/sessions/*", "list_connections with link_id *"},
    {"GET /api/flows/templates", "describe_action with the template *"},
    {"GET /api/flows/templates/*", "describe_action"},
    {"POST /api/flows/start", "start_flow"},
    {"GET /api/flows/*", "get_flow"},
    {"POST /api/flows/*/cancel", "cancel_flow"},
};

/* Members whose name in a tool is different. */
static const struct {
    const char *name, *words;
} names[] = {
    {"connectionId", "connection_id"},
    {"flowTemplate", "template"},
};

/* ---- one route ---- */

static bool is_route(slice given, slice route, slice *any)
{
    while (given.len > 0 && route.len > 0) {
        slice part = slice_split(&given, '/'), wanted = slice_split(&route, '/');
        if (slice_eq_cstr(wanted, "*"))
            *any = part;
        else if (!slice_eq(part, wanted))
            return false;
    }
    return given.len == 0 && route.len == 0;
}

/* route: "GET /api/x/y", without its query. */
static void add_tool_words(struct arena_text *out, slice route, enum mcp_reader reader)
{
    const char *words = reader == MCP_OF_USER ? NULL : "the dashboard";
    slice any = SLICE("*");
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (is_route(route, slice_cstr(routes[i].route), &any)) {
            words = routes[i].words;
            if (!slice_ends_with(slice_cstr(routes[i].route), SLICE("*")))
                any = SLICE("*");
            break;
        }
    if (!words) {
        arena_text_add(out, route);
        arena_text_add(out, SLICE(" (with Sluice-User)"));
        return;
    }
    slice rest = slice_cstr(words);
    arena_text_add(out, slice_split(&rest, '*'));
    if (rest.ptr) {
        arena_text_add(out, any);
        arena_text_add(out, rest);
    }
}

static bool is_route_char(char c)
{
    return ascii_is_alnum(c) || slice_find_char(SLICE("/_-.~%{}:"), c) >= 0;
}

/* The length of the route at the start of the text, 0 if there is none. *all: the length
 * including its query. A full stop at the end belongs to the sentence. */
static size_t route_len(slice text, size_t *all)
{
    static const char *const methods[] = {"GET ", "POST ", "PUT ", "PATCH ", "DELETE "};
    size_t len = 0;
    for (size_t i = 0; i < ARRAY_LEN(methods) && len == 0; i++)
        if (slice_starts_with(text, slice_cstr(methods[i])))
            len = strlen(methods[i]);
    if (len == 0 || !slice_starts_with(slice_from(text, len), SLICE("/api/")))
        return 0;
    while (len < text.len && is_route_char(text.ptr[len]))
        len++;
    *all = len;
    if (len < text.len && text.ptr[len] == '?')
        while (*all < text.len && (is_route_char(text.ptr[*all]) ||
                                   slice_find_char(SLICE("?=&"), text.ptr[*all]) >= 0))
            ++*all;
    bool has_query = *all > len;
    while (text.ptr[*all - 1] == '.' || text.ptr[*all - 1] == ':')
        --*all;
    return has_query ? len : *all;
}

/* ---- a sentence ---- */

static bool names_something(slice text)
{
    bool found = slice_find(text, SLICE(" /api/")) >= 0;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        found = found || slice_find(text, slice_cstr(names[i].name)) >= 0;
    return found;
}

/* The length of the route, or of a name from the table above, at the start of the text. 0:
 * neither. */
static size_t name_len(slice text, size_t *route, size_t *which)
{
    size_t all;
    *route = route_len(text, &all);
    if (*route > 0)
        return all;
    for (*which = 0; *which < ARRAY_LEN(names); ++*which)
        if (slice_starts_with(text, slice_cstr(names[*which].name)))
            return strlen(names[*which].name);
    return 0;
}

slice mcp_words_say(slice sentence, enum mcp_reader reader, struct arena *arena)
{
    struct arena_text out;
    size_t from = 0;
    if (!names_something(sentence))
        return sentence;
    arena_text_init(&out, arena, 2 * sentence.len + 256);
    for (size_t at = 0; at < sentence.len; at++) {
        size_t route, which;
        slice rest = slice_from(sentence, at);
        bool begins = at == 0 || !ascii_is_alnum(sentence.ptr[at - 1]);
        size_t len = begins ? name_len(rest, &route, &which) : 0;
        if (len == 0)
            continue;
        arena_text_add(&out, slice_of(sentence.ptr + from, at - from));
        if (route > 0)
            add_tool_words(&out, slice_first(rest, route), reader);
        else
            arena_text_add(&out, slice_cstr(names[which].words));
        from = at + len;
        at = from - 1;
    }
    arena_text_add(&out, slice_from(sentence, from));
    return out.status == OK ? slice_of(out.ptr, out.len) : sentence;
}

const char *mcp_words_whole_flow(enum mcp_reader reader)
{
    return reader == MCP_OF_USER
               ? "The account's application can read all of it: /api/flows/{id}, with "
                 "Sluice-User."
               : "The dashboard shows all of it.";
}

/* ---- a reply ---- */

static bool is_ours(slice key)
{
    return slice_has_word(SLICE("\"hint\" \"message\" \"error\""), key);
}

static bool leads_to_ours(slice key)
{
    return !key.ptr || slice_has_word(SLICE("\"error\" \"flow\" \"steps\""), key);
}

static void say_below(struct arena_text *out, slice container, unsigned depth,
                      enum mcp_reader reader, struct arena *arena)
{
    struct json_scan scan;
    slice key, value;
    const char *from = container.ptr;
    json_scan_open(&scan, container);
    while (json_scan_next(&scan, &key, &value)) {
        enum json_type type = json_scan_type(value);
        bool is_container = type == JSON_OBJECT || type == JSON_ARRAY;
        bool is_said = type == JSON_STRING && is_ours(key);
        if (!is_said && !(is_container && depth > 0 && leads_to_ours(key)))
            continue;
        arena_text_add(out, slice_of(from, (size_t)(value.ptr - from)));
        if (is_said)
            arena_text_add(out, mcp_words_say(value, reader, arena));
        else
            say_below(out, value, depth - 1, reader, arena);
        from = value.ptr + value.len;
    }
    arena_text_add(out, slice_of(from, (size_t)(container.ptr + container.len - from)));
}

/* Removes the summary of a refusal if it repeats the message. */
static slice leave_summary_out(slice json_text, struct arena *arena)
{
    slice display = json_scan_get(json_text, SLICE("display"), arena);
    slice summary = json_scan_get(display, SLICE("summary"), arena);
    slice title = json_scan_get(display, SLICE("title"), arena);
    if (!title.ptr || !slice_eq(summary, json_scan_get(json_text, SLICE("message"), arena)))
        return json_text;
    size_t before = (size_t)(display.ptr - json_text.ptr);
    slice lean = arena_printf(arena, "%.*s{\"title\":%.*s}%.*s",
                              SLICE_ARG(slice_first(json_text, before)), SLICE_ARG(title),
                              SLICE_ARG(slice_from(json_text, before + display.len)));
    return lean.ptr ? lean : json_text;
}

slice mcp_words_say_json(slice json_text, enum mcp_reader reader, struct arena *arena)
{
    struct arena_text out;
    json_text = leave_summary_out(json_text, arena);
    if (!names_something(json_text))
        return json_text;
    arena_text_init(&out, arena, 2 * json_text.len + 256);
    say_below(&out, json_text, DEPTH_MAX, reader, arena);
    return out.status == OK ? slice_of(out.ptr, out.len) : json_text;
}
