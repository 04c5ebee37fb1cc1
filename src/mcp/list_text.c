/*
 * Lists as lines; see list_text.h.
 */
#include "mcp/list_text.h"

#include "catalog/catalog.h"
#include "json/scan.h"
#include "mcp/flow_view.h"
#include "mcp/words.h"

enum { LIST_TEXT_BYTES_MAX = 256 * 1024 };

struct list_page {
    struct api_request *request;
    struct arena *arena;
    struct buf out;
};

/* ---- parts of a line ---- */

static slice item_text(const struct list_page *page, slice object, const char *name)
{
    return mcp_flow_text(object, name, page->arena);
}

/* An excerpt of a member whose text is from an app or a person. */
static slice excerpt_of(const struct list_page *page, slice object, const char *name)
{
    return mcp_excerpt(item_text(page, object, name), page->arena);
}

static void put_excerpt(struct list_page *page, const char *before, slice text)
{
    if (text.len > 0)
        buf_printf(&page->out, "%s\"%.*s\"", before, SLICE_ARG(mcp_excerpt(text, page->arena)));
}

/* ---- a list ---- */

/* line: writes an item. end: writes what the list has besides its items, such as the next page. */
static enum op_result reply_list(struct api_request *request, unsigned status, slice json_text,
                                 struct op *owner, const char *key,
                                 void (*line)(struct list_page *page, slice item),
                                 void (*end)(struct list_page *page, slice list))
{
    struct mcp_message *message = request->outer;
    struct list_page page = {.request = request, .arena = &request->serve.op.arena};
    struct json_scan scan;
    slice name, item;
    if (status != 200)
        return mcp_tool_result.reply(request, status, json_text, owner);
    buf_init(&page.out, LIST_TEXT_BYTES_MAX);
    json_scan_open(&scan, json_scan_get(json_text, slice_cstr(key), page.arena));
    while (json_scan_next(&scan, &name, &item)) {
        if (page.out.len > 0)
            buf_append(&page.out, SLICE("\n"));
        line(&page, item);
    }
    bool is_whole = buf_is_ok(&page.out);
    message->list_lines = arena_dup(page.arena, buf_slice(&page.out));
    buf_clear(&page.out);
    end(&page, json_text);
    if (message->list_lines.len == 0 && page.out.len == 0)
        buf_append(&page.out, SLICE("The list is empty."));
    message->list_end = arena_take(page.arena, &page.out);
    return is_whole && !page.arena->is_exhausted
               ? mcp_tool_result.reply(request, status, json_text, owner)
               : api_reply_no_memory(request);
}

static void put_next(struct list_page *page, slice list, const char *tool)
{
    slice cursor = item_text(page, list, "next_cursor");
    if (cursor.ptr)
        buf_printf(&page->out,
                   "There is more. Call %s with the same arguments and cursor "
                   "\"%.*s\".",
                   tool, SLICE_ARG(cursor));
}

/* ---- apps ---- */

static void put_app(struct list_page *page, slice item)
{
    slice state = item_text(page, item, "connection_state");
    slice count = json_scan_get(item, SLICE("connections"), page->arena);
    buf_printf(&page->out, "%.*s  %.*s  ", SLICE_ARG(item_text(page, item, "integration_id")),
               SLICE_ARG(item_text(page, item, "name")));
    if (slice_eq_cstr(state, "ambiguous"))
        buf_printf(&page->out, "connected (%.*s connections; a call has to name one)",
                   SLICE_ARG(count));
    else if (slice_eq_cstr(state, "not_connected"))
        buf_append(&page->out, SLICE("not connected"));
    else if (slice_eq_cstr(state, "reauth_required"))
        buf_append(&page->out, SLICE("has to be reconnected"));
    else if (slice_eq_cstr(count, "0"))
        buf_append(&page->out, SLICE("needs no connection"));
    else if (slice_eq_cstr(count, "1"))
        buf_append(&page->out, SLICE("connected"));
    else
        buf_printf(&page->out, "connected (%.*s connections)", SLICE_ARG(count));
}

static void end_apps(struct list_page *page, slice list)
{
    uint64_t at = 0, size = 0, total = 0;
    if (slice_to_u64(json_scan_get(list, SLICE("page"), page->arena), UINT32_MAX, &at) &&
        slice_to_u64(json_scan_get(list, SLICE("page_size"), page->arena), UINT32_MAX, &size) &&
        slice_to_u64(json_scan_get(list, SLICE("total"), page->arena), UINT32_MAX, &total) &&
        at * size < total)
        buf_printf(&page->out, "There is more. Call list_apps with page %llu.",
                   (unsigned long long)at + 1);
}

static enum op_result reply_apps(struct api_request *request, unsigned status, slice json_text,
                                 struct op *owner)
{
    return reply_list(request, status, json_text, owner, "items", put_app, end_apps);
}

const struct api_envelope mcp_apps_result = {.reply = reply_apps};

/* ---- history ---- */

/* The title of the action, if the catalog still has it. */
static slice action_title(const struct list_page *page, slice app_id, slice action_id)
{
    const struct catalog_integration *app =
        catalog_find_integration(*page->request->api->config.catalog, app_id, NULL);
    const struct catalog_action *action = app ? catalog_find_action(app, action_id, NULL) : NULL;
    return action ? action->title : SLICE_NONE;
}

/* Writes what was done or what went wrong: the execution's own words, else the title of its
 * action. */
static void put_words(struct list_page *page, slice item, slice app_id, slice action_id)
{
    slice display = json_scan_get(item, SLICE("display"), page->arena);
    slice title = item_text(page, display, "title");
    put_excerpt(page, "  ", title.len > 0 ? title : action_title(page, app_id, action_id));
    slice summary = item_text(page, display, "summary"), message = item_text(page, item, "message");
    if (!slice_eq(summary, message))
        put_excerpt(page, " ", summary);
    slice code = excerpt_of(page, item, "error_code");
    if (code.len > 0)
        buf_printf(&page->out, "  %.*s", SLICE_ARG(code));
    put_excerpt(page, " ", mcp_words_say(message, mcp_reader_of(page->request), page->arena));
}

static void put_past_call(struct list_page *page, slice item)
{
    enum { DATE_LEN = 10, MINUTE_AT = 11, MINUTE_LEN = 5 };
    slice at = item_text(page, item, "started_at"), app = excerpt_of(page, item, "integration_id"),
          action = excerpt_of(page, item, "action_id"),
          flow = json_scan_get(item, SLICE("flow"), page->arena),
          key = json_scan_get(item, SLICE("api_key"), page->arena);
    slice id = item_text(page, item, "execution_id"); /* a blocked run has none */
    ASSERT(at.len >= MINUTE_AT + MINUTE_LEN);
    buf_printf(&page->out, "%.*s %.*s UTC  %.*s %.*s  %.*s", DATE_LEN, at.ptr, MINUTE_LEN,
               at.ptr + MINUTE_AT, SLICE_ARG(app), SLICE_ARG(action),
               SLICE_ARG(item_text(page, item, "status")));
    put_words(page, item, app, action);
    put_excerpt(page, "  key ", item_text(page, key, "name"));
    if (flow.ptr) {
        buf_printf(&page->out, "  flow %.*s", SLICE_ARG(item_text(page, flow, "id")));
        put_excerpt(page, " ", item_text(page, flow, "title"));
        put_excerpt(page, " step ", item_text(page, flow, "stepKey"));
    } else if (id.len > 0) {
        buf_printf(&page->out, "  execution %.*s", SLICE_ARG(id));
    }
}

static void end_history(struct list_page *page, slice list)
{
    put_next(page, list, "history");
}

static enum op_result reply_history(struct api_request *request, unsigned status, slice json_text,
                                    struct op *owner)
{
    return reply_list(request, status, json_text, owner, "executions", put_past_call, end_history);
}

const struct api_envelope mcp_history_result = {.reply = reply_history};

/* ---- connections ---- */

static void put_connection(struct list_page *page, slice item)
{
    slice status = item_text(page, item, "status");
    buf_printf(&page->out, "%.*s  %.*s", SLICE_ARG(item_text(page, item, "id")),
               SLICE_ARG(excerpt_of(page, item, "integration_id")));
    put_excerpt(page, "  ", item_text(page, item, "label"));
    put_excerpt(page, "  login ", item_text(page, item, "identity"));
    buf_printf(&page->out, "  %.*s", SLICE_ARG(status));
    if (slice_eq_cstr(json_scan_get(item, SLICE("default"), page->arena), "true"))
        buf_append(&page->out, SLICE("  default"));
}

static void end_connections(struct list_page *page, slice list)
{
    put_next(page, list, "list_connections");
}

static enum op_result reply_connections(struct api_request *request, unsigned status,
                                        slice json_text, struct op *owner)
{
    return reply_list(request, status, json_text, owner, "connections", put_connection,
                      end_connections);
}

const struct api_envelope mcp_connections_result = {.reply = reply_connections};
