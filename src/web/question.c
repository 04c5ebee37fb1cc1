/*
 * Confirmations: before a key is revoked, a connection deleted or a flow cancelled, a page says
 * what depends on it and asks. Its form posts to its own address, so that it works without a
 * script.
 */
#include "base/clock.h"
#include "store/connect_session.h"
#include "web/app.h"

/* How the question can be answered. keep: the link that leaves everything as it is. */
struct answer {
    slice action, label, keep, keep_label;
};

static enum op_result ask_question(struct web_request *request, slice title,
                                   const struct answer *answer, struct buf *body)
{
    buf_append(body, SLICE("<div class=\"actions\">"));
    /* No label: there is nothing to confirm any more. */
    if (answer->label.ptr)
        web_button(request, body, answer->action, answer->label, "danger");
    HTML(body, "<a class=\"button\" href=\"{}\">{}</a></div>", answer->keep, answer->keep_label);
    return web_reply_page(request, 200, title, body);
}

static void write_count(struct buf *out, size_t count, const char *one, const char *many)
{
    buf_printf(out, "%zu %s", count, count == 1 ? one : many);
}

/* ---- a key ---- */

static enum op_result begin_revoke(struct web_request *request)
{
    /* Only checks the id; load_links reads it again. */
    struct uuid *id = ARENA_NEW(&request->op.arena, struct uuid);
    if (!id)
        return web_reply_database(request, ERR_BUSY);
    if (!web_path_uuid(request, 0, id))
        return OP_DONE;
    store_api_key_list(request->web->config.pool, &request->query, &request->op,
                       request->session.account_id);
    return OP_WAIT;
}

struct revoking {
    struct api_key key;
    bool is_last_admin;
};

/* An expired key may still be revoked, but it does not count as an admin. */
static bool is_valid(const struct api_key *key)
{
    return !key->revoked_at && (key->expires_at == 0 || key->expires_at > clock_wall_us());
}

static enum op_result load_links(struct web_request *request)
{
    struct revoking *it = ARENA_NEW(&request->op.arena, struct revoking);
    struct api_key *keys;
    size_t count, admins = 0;
    struct uuid id;
    int status = store_api_key_list_result(&request->query, &keys, &count);
    if (status != OK || !it)
        return web_reply_database(request, status != OK ? status : ERR_NOMEM);
    if (!web_path_uuid(request, 0, &id))
        return OP_DONE;
    /* The list is small: an account has few keys. */
    for (size_t i = 0; i < count; i++) {
        admins += is_valid(&keys[i]) && (keys[i].scopes & SCOPE_ADMIN);
        if (uuid_eq(keys[i].id, id))
            it->key = keys[i];
    }
    if (uuid_is_nil(it->key.id))
        return web_reply_problem(request, 404, SLICE("Not found"),
                                 SLICE("The account has no such key."));
    /* The last valid admin key of the account: afterwards only the operator can manage it. */
    it->is_last_admin = admins == 1 && is_valid(&it->key) && (it->key.scopes & SCOPE_ADMIN);
    request->state = it;
    /* The second query of two: it needs the key's hash. */
    store_connect_session_count(request->web->config.pool, &request->query, &request->op,
                                request->session.account_id, it->key.hash);
    return OP_WAIT;
}

static void write_revoking(struct web_request *request, const struct revoking *it, size_t links,
                           struct buf *out)
{
    const struct api_key *key = &it->key;
    if (uuid_eq(key->id, request->session.key_id))
        buf_append(out, SLICE("<p class=\"problem\">You are signed in with this key: you will be "
                              "signed out, and need another key to sign in again.</p>"));
    if (it->is_last_admin)
        buf_append(out, SLICE("<p class=\"problem\">It is the last key with the scope admin: "
                              "keys and connections can then be managed by your operator alone "
                              "(<code>sluice keys create</code>).</p>"));
    HTML(out, "<p>The key begins with <code>{}</code>; it was last used ", key->prefix);
    if (key->last_used_at)
        html_time(out, key->last_used_at);
    else
        buf_append(out, SLICE("never"));
    buf_append(out, SLICE(".</p><ul><li>Every program that uses it is refused at once, with 401."
                          "</li><li>Every session that was opened with it ends.</li><li>"));
    if (links > 0) {
        write_count(out, links, "connect link that it made is", "connect links that it made are");
        buf_append(out, SLICE(" open, and will stop working.</li>"));
    } else {
        buf_append(out, SLICE("No open connect link was made with it.</li>"));
    }
    buf_append(out, SLICE("<li>Flows that it started continue.</li></ul>"
                          "<p>A revoked key cannot be restored.</p>"));
}

static enum op_result finish_revoke(struct web_request *request)
{
    const struct revoking *it = request->state;
    struct answer answer = {.keep = SLICE("/keys"), .keep_label = SLICE("Keep the key")};
    struct buf body;
    size_t links;
    /* state is set by load_links, so NULL is the first call. */
    if (!it)
        return load_links(request);
    int status = store_count_result(&request->query, &links);
    if (status != OK)
        return web_reply_database(request, status);
    slice name = it->key.name.len > 0 ? it->key.name : it->key.prefix;
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    if (it->key.revoked_at) {
        buf_append(&body, SLICE("<p>The key is revoked already.</p>"));
        answer.keep_label = SLICE("Back to the keys");
    } else {
        write_revoking(request, it, links, &body);
        answer.action = arena_printf(&request->op.arena, "/keys/%.*s/revoke",
                                     SLICE_ARG(request->match.params[0]));
        answer.label = SLICE("Revoke the key");
    }
    return ask_question(request,
                        arena_printf(&request->op.arena, "Revoke the key %.*s?", SLICE_ARG(name)),
                        &answer, &body);
}

const struct web_page web_key_revoke_ask = {.route = "/keys/{id}/revoke",
                                            .access = WEB_SESSION,
                                            .scope = SCOPE_ADMIN,
                                            .begin = begin_revoke,
                                            .finish = finish_revoke};

/* ---- a connection ---- */

enum { FLOWS_EXAMINED = 100 }; /* the newest of each status; the page says if that was not all */

struct disconnecting {
    struct catalog *catalog;
    struct connection row;
    struct flow_need need;
    struct flow_page *running, *waiting;
};

static void on_disconnect_end(struct web_request *request)
{
    const struct disconnecting *it = request->state;
    catalog_unref(it->catalog);
}

static enum op_result no_connection(struct web_request *request)
{
    return web_reply_problem(request, 404, SLICE("Not found"),
                             SLICE("There is no such connection; it may have been removed."));
}

static enum op_result begin_disconnect(struct web_request *request)
{
    struct disconnecting *it = ARENA_NEW(&request->op.arena, struct disconnecting);
    int64_t id;
    if (!it)
        return web_reply_database(request, ERR_BUSY);
    if (!slice_to_i64(request->match.params[0], &id) || id <= 0)
        return no_connection(request);
    /* on_end releases it; `need` below points into it. */
    it->catalog = catalog_ref(*request->web->config.catalog);
    request->state = it;
    request->on_end = on_disconnect_end;
    store_connection_get(request->web->config.pool, &request->query, &request->op,
                         request->session.account_id, id);
    return OP_WAIT;
}

static enum op_result load_flows(struct web_request *request)
{
    struct disconnecting *it = request->state;
    struct flow_service *flow = request->web->config.flow;
    struct flow_filter filter = {
        .account_id = request->session.account_id, .limit = FLOWS_EXAMINED, .with_input = true};
    int status = store_connection_get_result(&request->query, &it->row);
    if (status == ERR_NOTFOUND)
        return no_connection(request);
    if (status != OK)
        return web_reply_database(request, status);
    /* A flow needs the connection by name, or by default if this is the default one. */
    it->need = (struct flow_need){.catalog = it->catalog,
                                  .integration_id = it->row.integration_id,
                                  .connection_id = it->row.id,
                                  .is_default = it->row.is_default};
    /* Two lists, since a filter has one status. */
    filter.status = FLOW_RUNNING;
    it->running = flow_page_start_needing(flow, &filter, &it->need, &request->op);
    filter.status = FLOW_WAITING;
    it->waiting = flow_page_start_needing(flow, &filter, &it->need, &request->op);
    return it->running || it->waiting ? OP_WAIT : web_reply_database(request, ERR_BUSY);
}

static void write_flows(const struct flow_page *page, const char *title, struct buf *out)
{
    if (page->count == 0)
        return;
    HTML(out, "<h2>{}</h2><ul class=\"list\">", slice_cstr(title));
    for (size_t i = 0; i < page->count; i++)
        web_write_flow_row(out, &page->rows[i]);
    buf_append(out, SLICE("</ul>"));
}

static void write_disconnecting(const struct disconnecting *it, struct buf *out)
{
    const struct catalog_integration *app =
        catalog_find_integration(it->catalog, it->row.integration_id);
    ASSERT(it->running && it->waiting);
    size_t count = it->running->count + it->waiting->count;
    bool may_be_more = it->running->examined == FLOWS_EXAMINED ||
                       it->waiting->examined == FLOWS_EXAMINED;
    HTML(out, "<p>The credential for {} is deleted from this server. ",
         app ? app->name : it->row.integration_id);
    if (it->row.last_used_at) {
        buf_append(out, SLICE("It was last used "));
        html_time(out, it->row.last_used_at);
        buf_append(out, SLICE(".</p>"));
    } else {
        buf_append(out, SLICE("It has not been used.</p>"));
    }
    buf_append(out, it->row.is_default
                        ? SLICE("<p>It is the default: calls that name no connection use it.</p>")
                        : SLICE(""));
    buf_append(out, SLICE("<p>"));
    if (count > 0)
        write_count(
            out, count,
            "running or waiting flow has a step left that uses it; that step will fail.",
            "running or waiting flows have a step left that uses it; those steps will fail.");
    else
        buf_append(out, SLICE("No running or waiting flow uses it."));
    if (may_be_more)
        buf_printf(out, " There may be more: only the newest %d of each were examined.",
                   FLOWS_EXAMINED);
    buf_append(out, SLICE(" Calls that use it are refused until the app is connected again."
                          "</p>"));
    write_flows(it->running, "Running flows", out);
    write_flows(it->waiting, "Waiting flows", out);
}

static enum op_result finish_disconnect(struct web_request *request)
{
    const struct disconnecting *it = request->state;
    struct buf body;
    /* The first call has the row only. */
    if (!it->running)
        return load_flows(request);
    if (!it->waiting || it->running->status != OK || it->waiting->status != OK)
        return web_reply_database(request, ERR_BUSY);
    slice path = app_connection_path(request, it->row.id);
    const struct answer answer = {
        .action = arena_printf(&request->op.arena, "%.*s/delete", SLICE_ARG(path)),
        .label = SLICE("Disconnect"),
        .keep = path,
        .keep_label = SLICE("Keep the connection"),
    };
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    write_disconnecting(it, &body);
    return ask_question(
        request, arena_printf(&request->op.arena, "Disconnect %.*s?", SLICE_ARG(it->row.label)),
        &answer, &body);
}

const struct web_page web_connection_delete_ask = {.route = "/connections/{id}/delete",
                                                   .access = WEB_SESSION,
                                                   .scope = SCOPE_ADMIN,
                                                   .begin = begin_disconnect,
                                                   .finish = finish_disconnect};

/* ---- a flow ---- */

static enum op_result begin_cancel_question(struct web_request *request)
{
    struct uuid id;
    if (!web_path_uuid(request, 0, &id))
        return OP_DONE;
    request->state =
        flow_load_start(request->web->config.flow, request->session.account_id, id, &request->op);
    return request->state ? OP_WAIT : web_reply_database(request, ERR_BUSY);
}

/* Writes a line for a step that changes something in an app. false: it changes nothing, and no line
 * is written. */
static bool write_change(struct web_request *request, const struct flow_step_def *step,
                         const struct json *output, struct buf *out)
{
    const struct catalog_action *action =
        step->type == FLOW_TOOL_CALL ? catalog_find_tool(*request->web->config.catalog, step->tool)
                                     : NULL;
    /* A tool that left the catalog may have written, so it is listed. */
    if (step->type != FLOW_TOOL_CALL || (action && action->level == LEVEL_READ))
        return false;
    HTML(out, "<li>{}", action ? action->title : step->tool);
    if (action)
        HTML(out, " ({})", action->integration->name);
    /* A step that repeats has one output for each item. */
    if (step->for_each && json_is(output, JSON_ARRAY))
        buf_printf(out, ", %u times", output->count);
    buf_append(out, SLICE("</li>"));
    return true;
}

enum part { PART_DONE, PART_BEGUN, PART_LEFT };

static enum part part_of(const struct json *step)
{
    slice status = json_get_str(step, SLICE("status"));
    if (slice_eq_cstr(status, "completed"))
        return PART_DONE;
    return slice_eq_cstr(status, "running") ? PART_BEGUN : PART_LEFT;
}

/* The view's steps are in the order of the template's, so that both have the same index. */
static void write_part(struct web_request *request, const struct flow_template *tmpl,
                       const struct json *steps, enum part part, const char *title,
                       const char *none, struct buf *out)
{
    size_t count = 0;
    struct buf list;
    ASSERT(steps->count == tmpl->step_count);
    buf_init(&list, WEB_PAGE_BYTES_MAX);
    for (size_t i = 0; i < steps->count && i < tmpl->step_count; i++) {
        const struct json *step = &steps->as.items[i];
        /* A skipped step writes nothing, and is part of no list. */
        bool is_skipped = slice_eq_cstr(json_get_str(step, SLICE("status")), "skipped");
        if (part_of(step) == part && !is_skipped)
            count += write_change(request, &tmpl->steps[i], JSON_GET(step, "output"), &list);
    }
    /* Without a sentence for "none" an empty part has no heading either. */
    if (count > 0 || *none)
        HTML(out, "<h2>{}</h2>", slice_cstr(title));
    if (count > 0) {
        buf_append(out, SLICE("<ul>"));
        buf_append(out, buf_slice(&list));
        buf_append(out, SLICE("</ul>"));
    } else if (*none) {
        HTML(out, "<p>{}</p>", slice_cstr(none));
    }
    buf_deinit(&list);
}

static enum op_result finish_cancel(struct web_request *request)
{
    struct flow_load *load = request->state;
    struct buf body;
    if (load->status == ERR_NOTFOUND)
        return web_reply_problem(request, 404, SLICE("Not found"), SLICE("There is no such flow."));
    /* view, and with it steps, is NULL for every failure; the status says which. */
    slice text = load->status == OK ? flow_load_render_view(load) : SLICE_NONE;
    const struct json *view =
        text.ptr ? json_parse(&request->op.arena, text, &json_limits_provider, NULL) : NULL;
    const struct json *steps = JSON_GET(view, "steps");
    if (!json_is(steps, JSON_ARRAY))
        return web_reply_database(request, load->status != OK ? load->status : ERR_NOMEM);
    enum flow_status status = load->whole.flow.status;
    bool has_ended = status == FLOW_COMPLETED || status == FLOW_CANCELLED;
    slice path =
        arena_printf(&request->op.arena, "/flows/%.*s", SLICE_ARG(request->match.params[0]));
    struct answer answer = {.keep = path, .keep_label = SLICE("Back to the flow")};
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    buf_append(&body, SLICE("<p>"));
    web_badge(&body, slice_cstr(flow_status_name(status)));
    buf_append(&body, has_ended
                          ? SLICE("</p><p>The flow has ended; there is nothing to cancel.</p>")
                          : SLICE("</p>"));
    write_part(request, load->tmpl, steps, PART_DONE, "Already done",
               "Nothing has been written yet.", &body);
    if (!has_ended) {
        write_part(request, load->tmpl, steps, PART_BEGUN, "In progress; may still be done", "",
                   &body);
        write_part(request, load->tmpl, steps, PART_LEFT, "Will not be done",
                   "Nothing is left to write.", &body);
        buf_append(&body, SLICE("<p>Cancelling undoes nothing. A cancelled flow cannot be "
                                "resumed.</p>"));
        answer.action = arena_printf(&request->op.arena, "%.*s/cancel", SLICE_ARG(path));
        answer.label = SLICE("Cancel the flow");
    }
    return ask_question(
        request, arena_printf(&request->op.arena, "Cancel %.*s?", SLICE_ARG(load->tmpl->name)),
        &answer, &body);
}

const struct web_page web_flow_cancel_ask = {.route = "/flows/{id}/cancel",
                                             .access = WEB_SESSION,
                                             .scope = SCOPE_EXECUTE,
                                             .begin = begin_cancel_question,
                                             .finish = finish_cancel};
