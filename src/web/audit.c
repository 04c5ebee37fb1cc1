/*
 * The audit trail: events with actor, time and address, newest first, also as CSV. The filters are
 * in the address, and the database applies them: a page ends after at most SCANS_MAX scans of 1,000
 * events each, and "Older" continues from there.
 */
#include "base/clock.h"
#include "call/outcome.h"
#include "serve/foresee.h"
#include "serve/stored.h"
#include "store/audit.h"
#include "store/connection.h"
#include "web/pages.h"

enum {
    ROWS_MAX = 50,
    CSV_ROWS_MAX = 2000, /* a longer trail is downloaded in parts */
    SCANS_MAX = 3,
    CSV_SCANS_MAX = 13,
    CONNECTIONS_MAX = 200, /* keys with names; further keys are shown by id */
};

/* Groups whose words are not their names. */
static const struct {
    const char *name, *words;
} groups[] = {
    {"key", "API key"},
    {"link", "connect link"},
    {"oauth_client", "OAuth client"},
};

enum { KIND, BY, PERIOD };
static const struct serve_filter filters[SERVE_FILTERS_MAX] = {
    [KIND] = {.name = "kind", .words = AUDIT_KIND_WORDS, .wanted = AUDIT_KIND_WANTED},
    [BY] = {.name = "by", .wanted = "an actor in the audit trail"},
    [PERIOD] = VIEW_PERIOD,
    {.name = "before", .kind = SERVE_CURSOR}};

struct trail {
    struct serve_list list;
    struct pg_query keys_query, connections_query;
    struct api_key *keys;
    struct connection *connections; /* not loaded for CSV */
    size_t key_count, connection_count;
    bool is_csv;
    struct buf csv;
};

/* ---- words ---- */

static slice sentence_of(slice kind)
{
    enum audit_kind known = audit_kind_find(kind);
    return known < AUDIT_KIND_COUNT ? audit_kind_sentence(known) : kind;
}

/* Returns SLICE_NONE if the account has no such key. */
static slice key_name_of(struct web_request *request, slice id)
{
    const struct trail *trail = request->state;
    struct uuid key_id;
    return uuid_parse(id, &key_id)
               ? view_key_label(&request->serve.op.arena, trail->keys, trail->key_count, key_id)
               : SLICE_NONE;
}

/* "key:<id>" becomes the key's name, as long as the account has the key; other actors are named
 * by their kind. */
static slice actor_name_of(struct web_request *request, slice actor)
{
    slice id = actor, what = slice_split(&id, ':');
    if (slice_eq_cstr(what, "link"))
        return SLICE("connect link");
    if (slice_eq_cstr(what, "operator"))
        return arena_printf(&request->serve.op.arena, "operator %.*s", SLICE_ARG(id));
    slice name = slice_eq_cstr(what, "key") ? key_name_of(request, id) : SLICE_NONE;
    return name.ptr ? name : actor;
}

/* ---- CSV (RFC 4180) ---- */

/* Each cell is quoted. A spreadsheet treats a text that begins with one of these characters as a
 * formula: a leading apostrophe prevents that. */
static void add_cell(struct buf *out, slice text, bool is_last)
{
    bool is_formula = text.len > 0 && memchr("=+-@\t\r\n", text.ptr[0], 7);
    buf_append(out, is_formula ? SLICE("\"'") : SLICE("\""));
    for (bool is_first = true; text.ptr; is_first = false) {
        slice part = slice_split(&text, '"');
        buf_append(out, is_first ? SLICE("") : SLICE("\"\""));
        buf_append(out, part);
    }
    buf_append(out, is_last ? SLICE("\"\r\n") : SLICE("\","));
}

static void add_line(struct web_request *request, const struct audit_event *event)
{
    struct trail *trail = request->state;
    char at[TIME_TEXT_LEN + 1];
    time_format(uuid_v7_wall_ms(event->id) * 1000, at);
    const slice cells[] = {slice_of(at, TIME_TEXT_LEN),
                           event->kind,
                           sentence_of(event->kind),
                           event->reason,
                           event->by.actor,
                           actor_name_of(request, event->by.actor),
                           event->by.address,
                           event->by.request_id,
                           event->details};
    for (size_t i = 0; i < ARRAY_LEN(cells); i++)
        add_cell(&trail->csv, cells[i], i + 1 == ARRAY_LEN(cells));
}

/* ---- the page ---- */

/* One member of an event's details: its name and its text. */
struct detail {
    slice id, text, path; /* path: the page of the id; SLICE_NONE if it has none */
    int64_t at;           /* the time that the text contains, or 0 */
};
typedef void name_detail(struct web_request *, const struct json *details, struct detail *);

static void name_app(struct web_request *request, const struct json *details, struct detail *it)
{
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, it->id, NULL);
    (void)details;
    if (!app)
        return;
    it->text = app->name;
    it->path = arena_printf(&request->serve.op.arena, "/integrations/%.*s", SLICE_ARG(it->id));
}

static void name_action(struct web_request *request, const struct json *details, struct detail *it)
{
    const struct catalog_integration *app = catalog_find_integration(
        *request->web->config.catalog, json_get_str(details, SLICE("integration_id")), NULL);
    const struct catalog_action *action =
        serve_known(&request->serve, app ? catalog_find_action(app, it->id, NULL) : NULL);
    if (!action)
        return;
    it->text = action->title;
    it->path = arena_printf(&request->serve.op.arena, "/integrations/%.*s/actions/%.*s",
                            SLICE_ARG(app->integration_id), SLICE_ARG(action->action_id));
}

static void name_connection(struct web_request *request, const struct json *details,
                            struct detail *it)
{
    const struct trail *trail = request->state;
    int64_t id;
    (void)details;
    for (size_t i = 0; slice_to_i64(it->id, &id) && i < trail->connection_count; i++) {
        const struct connection *row = &trail->connections[i];
        if (row->id != id)
            continue;
        slice known = connection_identity_text(&row->identity);
        it->text = known.len > 0 ? known : row->label.len > 0 ? row->label : it->id;
        it->path = arena_printf(&request->serve.op.arena, "/connections/%.*s", SLICE_ARG(it->id));
    }
}

static void name_key(struct web_request *request, const struct json *details, struct detail *it)
{
    slice name = key_name_of(request, it->id);
    (void)details;
    if (!name.ptr)
        return;
    it->text = name;
    it->path = arena_printf(&request->serve.op.arena, "/keys/%.*s", SLICE_ARG(it->id));
}

/* A flow is named by its start, which its id contains: "of 2026-01-31 23:59 UTC". */
static void name_flow(struct web_request *request, const struct json *details, struct detail *it)
{
    char at[TIME_TEXT_LEN + 1];
    struct uuid id;
    (void)details;
    if (!uuid_parse(it->id, &id))
        return;
    it->at = uuid_v7_wall_ms(id) * 1000;
    time_format(it->at, at);
    it->text = arena_printf(&request->serve.op.arena, "of %.10s %.5s UTC", at, at + 11);
    it->path = arena_printf(&request->serve.op.arena, "/flows/%.*s", SLICE_ARG(it->id));
}

static const struct {
    const char *member, *title;
    name_detail *name;
} named[] = {{"integration_id", "App", name_app},
             {"action_id", "Action", name_action},
             {"connection_id", "Connection", name_connection},
             {"key_id", "Key", name_key},
             {"replaces", "Instead of", name_key},
             {"flow_id", "Flow", name_flow}};

static void write_detail(struct web_request *request, struct json_writer *w,
                         const struct json *details, const struct json_member *member)
{
    slice key = json_str(&member->key), title = SLICE_NONE;
    struct detail it = {.id = json_str(&member->value), .text = json_str(&member->value)};
    for (size_t i = 0; i < ARRAY_LEN(named); i++)
        if (slice_eq_cstr(key, named[i].member)) {
            title = slice_cstr(named[i].title);
            named[i].name(request, details, &it);
        }
    json_open(w, '{');
    if (title.ptr)
        json_member_str(w, "name", title);
    else
        value_view_name(w, "name", key);
    json_member_str(w, "text", it.text);
    json_member_str(w, "path", it.path);
    view_time(w, "at", it.at);
    json_close(w, '}');
}

/* Details that the sentence has, or that only the CSV has: an id without a page. */
static bool is_left_out(slice member)
{
    return slice_eq_cstr(member, "link_id") || slice_eq_cstr(member, "title");
}

/* A decision is named by its approval: 'Approved "Create 14 task pages"'. Events of earlier
 * versions have no title. */
static void write_what(struct json_writer *w, slice kind, slice title)
{
    bool is_approval = slice_eq(kind, audit_kind_name(AUDIT_FLOW_APPROVED));
    slice verb = is_approval ? SLICE("Approved") : SLICE("Rejected");
    json_member_str(w, "what", title.ptr ? verb : sentence_of(kind));
    json_member_str(w, "title", title);
}

/* The reason of a run is shown as its error code, as on all other pages; other reasons in words. A
 * code of OAuth is the app's own. */
static void write_reason(struct json_writer *w, slice reason)
{
    static const char *const words[][2] = {{"other_identity", "another login"},
                                           {"unknown_identity", "login unknown"},
                                           {"already_cancelled", "it was already cancelled"}};
    bool is_code = exec_reason_parse(reason) != EXEC_REASONS;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (slice_eq_cstr(reason, words[i][0]))
            reason = slice_cstr(words[i][1]);
    json_member_str(w, "reason", is_code ? exec_reason_code(reason) : reason);
    json_member_bool(w, "is_code", is_code);
}

static void write_event(struct web_request *request, struct json_writer *w,
                        const struct audit_event *event)
{
    const struct json *details =
        json_parse(&request->serve.op.arena, event->details, &json_limits_provider, NULL);
    json_open(w, '{');
    view_time(w, "at", uuid_v7_wall_ms(event->id) * 1000);
    write_what(w, event->kind, json_get_str(details, SLICE("title")));
    write_reason(w, event->reason);
    json_member_str(w, "by", actor_name_of(request, event->by.actor));
    json_member_str(w, "actor", event->by.actor);
    json_member_str(w, "address", event->by.address);
    json_member_open(w, "details", '[');
    for (uint32_t i = 0; json_is(details, JSON_OBJECT) && i < details->count; i++)
        if (details->as.members[i].value.type == JSON_STRING &&
            !is_left_out(json_str(&details->as.members[i].key)))
            write_detail(request, w, details, &details->as.members[i]);
    json_close(w, ']');
    json_close(w, '}');
}

static slice words_of_group(slice group)
{
    for (size_t i = 0; i < ARRAY_LEN(groups); i++)
        if (slice_eq_cstr(group, groups[i].name))
            return slice_cstr(groups[i].words);
    return group;
}

/* Writes each group of several kinds, which matches them all, and each kind. */
static void put_kinds(struct arena *arena, struct json_writer *w)
{
    slice before = SLICE("");
    for (enum audit_kind at = 0; at < AUDIT_KIND_COUNT; at++) {
        slice group = audit_kind_group(at);
        bool is_several = at + 1 < AUDIT_KIND_COUNT && slice_eq(group, audit_kind_group(at + 1));
        if (is_several && !slice_eq(group, before))
            view_choice(w, group,
                        arena_printf(arena, "All %.*s events", SLICE_ARG(words_of_group(group))));
        if (at != AUDIT_ACCOUNT_ERASED) /* the operator's: no account has such an event */
            view_choice(w, audit_kind_name(at), audit_kind_sentence(at));
        before = group;
    }
}

static void write_choices(struct web_request *request, struct json_writer *w)
{
    const struct trail *trail = request->state;
    struct arena *arena = &request->serve.op.arena;
    json_member_open(w, "kinds", '[');
    put_kinds(arena, w);
    json_close(w, ']');
    json_member_open(w, "actors", '[');
    for (size_t i = trail->key_count; i-- > 0;) {
        const struct api_key *key = &trail->keys[i];
        char id[UUID_TEXT_LEN + 1];
        uuid_format(key->id, id);
        view_choice(
            w, arena_printf(arena, "key:%s", id),
            arena_printf(arena, "%.*s (%.*s)", SLICE_ARG(key->name), SLICE_ARG(key->prefix)));
    }
    view_choice(w, SLICE("link"), SLICE("connect links"));
    view_choice(w, SLICE("operator"), SLICE("operators"));
    view_choice(w, SLICE("system"), SLICE("the system"));
    json_close(w, ']');
    view_periods(w);
    for (int i = KIND; i <= PERIOD; i++)
        json_member_str(w, filters[i].name, trail->list.values[i]);
}

/* ---- reading ---- */

static enum op_result reply_trail(struct web_request *request)
{
    struct trail *trail = request->state;
    struct json_writer *w = &request->view;
    if (trail->is_csv) {
        slice text = arena_take(&request->serve.op.arena, &trail->csv);
        if (!text.ptr)
            return web_reply_database(request, ERR_NOMEM);
        return web_reply_download(request, SLICE("text/csv; charset=utf-8"),
                                  SLICE("attachment; filename=\"audit.csv\""), text);
    }
    json_close(w, ']');
    write_choices(request, w);
    view_pager(request, w, trail->list.next);
    return web_reply_view(request, 200, "audit");
}

static web_step on_events;

static enum op_result load_events(struct web_request *request)
{
    struct trail *trail = request->state;
    trail->list.is_sieved = request->serve.policy != NULL;
    store_audit_list(request->web->config.pool, &request->query, &request->serve.op,
                     request->session.account_id, serve_list_scan(&trail->list),
                     trail->list.values[KIND], trail->list.values[BY]);
    return web_wait(request, on_events);
}

static enum op_result on_events(struct web_request *request)
{
    struct trail *trail = request->state;
    struct audit_event *found;
    struct uuid end;
    size_t count;
    int status = store_audit_list_result(&request->query, &found, &count, &end);
    /* The keys were loaded with the first page; their names are kept. */
    if (status == OK && !trail->keys)
        status = store_api_key_list_result(&trail->keys_query, &trail->keys, &trail->key_count);
    if (status == OK && !trail->connections && !trail->is_csv)
        status = store_connection_list_result(&trail->connections_query, &trail->connections,
                                              &trail->connection_count);
    if (status != OK)
        return web_reply_database(request, status);
    for (size_t i = 0; i < count; i++) {
        if (!serve_gives_event(&request->serve, *request->web->config.catalog, &found[i]))
            continue;
        if (!serve_list_take(&trail->list, found[i].id))
            break;
        if (trail->is_csv)
            add_line(request, &found[i]);
        else
            write_event(request, &request->view, &found[i]);
    }
    return serve_list_continues(&trail->list, end) ? load_events(request) : reply_trail(request);
}

static void on_end(struct web_request *request)
{
    struct trail *trail = request->state;
    buf_deinit(&trail->csv);
}

static enum op_result begin_trail(struct web_request *request, bool is_csv)
{
    struct trail *trail = web_state_new(request, sizeof(*trail));
    if (!trail)
        return OP_DONE;
    if (!web_list_read(request, &trail->list, filters, is_csv ? CSV_ROWS_MAX : ROWS_MAX))
        return OP_DONE;
    view_period_narrow(&trail->list, PERIOD);
    trail->list.scans_left = is_csv ? CSV_SCANS_MAX : SCANS_MAX;
    trail->is_csv = is_csv;
    buf_init(&trail->csv, WEB_PAGE_BYTES_MAX);
    request->on_end = on_end;
    if (is_csv)
        buf_append(&trail->csv, SLICE("at,kind,what,reason,actor,actor_name,address,request_id,"
                                      "details\r\n"));
    else
        json_member_open(view_begin(request), "rows", '[');
    store_api_key_list(request->web->config.pool, &trail->keys_query, &request->serve.op,
                       serve_payer(&request->serve));
    if (!is_csv)
        store_connection_page(request->web->config.pool, &trail->connections_query,
                              &request->serve.op, request->session.account_id,
                              &(const struct connection_page){.count_max = CONNECTIONS_MAX});
    return load_events(request);
}

enum op_result web_audit_trail(struct web_request *request)
{
    return begin_trail(request, false);
}

enum op_result web_audit_csv(struct web_request *request)
{
    return begin_trail(request, true);
}
