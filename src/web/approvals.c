/*
 * The inbox of approvals: waiting decisions, with requester, effect and expiry.
 */
#include "base/clock.h"
#include "serve/foresee.h"
#include "store/audit.h"
#include "store/flow_inbox.h"
#include "store/flow_read.h"
#include "web/flow_verdict.h"

slice view_template_name(const struct web_request *request, slice key)
{
    const struct flow_template *tmpl = flow_template_set_find(*request->web->config.templates, key);
    if (slice_eq_cstr(key, FLOW_HELD_KEY))
        return SLICE(FLOW_HELD_NAME);
    return tmpl ? tmpl->name : key;
}

enum { TOOLS_MAX = 20 }; /* apps shown in a row */

/* A decision to make. */
struct decision {
    slice title, summary;
    const struct json *domains; /* NULL: unknown */
    int64_t calls;
    enum catalog_level level_max;                    /* the highest level of the calls' effects */
    bool is_final;                                   /* at least one call cannot be reverted */
    const struct catalog_action *actions[TOOLS_MAX]; /* each once */
    size_t action_count;
    const struct json *items;   /* its calls, or of a large decision its first different ones */
    const struct json *targets; /* of the first call that has any */
    slice target_app, target;   /* its app; the name or id of its first place */
    bool has_more_targets;      /* another call writes elsewhere */
};

/* A tool that is no longer in the catalog has no action. */
static void add_tool(const struct web_request *request, struct decision *decision, slice tool)
{
    const struct catalog_action *action =
        tool.len > 0 ? catalog_find_tool(*request->web->config.catalog, tool) : NULL;
    if (!action)
        return;
    for (size_t i = 0; i < decision->action_count; i++)
        if (decision->actions[i] == action)
            return;
    if (action->level > decision->level_max)
        decision->level_max = action->level;
    decision->is_final = decision->is_final || effect_is_final(action);
    if (decision->action_count < TOOLS_MAX)
        decision->actions[decision->action_count++] = action;
}

static bool are_same_targets(const struct json *a, const struct json *b)
{
    bool is_same = a->count == b->count;
    for (uint32_t i = 0; is_same && i < a->count; i++) {
        const struct json *one = &a->as.items[i], *other = &b->as.items[i];
        is_same =
            slice_eq(json_get_str(one, SLICE("label")), json_get_str(other, SLICE("label"))) &&
            slice_eq(json_get_str(one, SLICE("id")), json_get_str(other, SLICE("id")));
    }
    return is_same;
}

/* Notes where a call writes. Places are compared by their ids: two may have the same name, and the
 * names of some may not have been read. */
static void add_target(const struct web_request *request, struct decision *decision,
                       const struct json *item)
{
    const struct json *targets = JSON_GET(item, "target");
    slice app = json_get_str(item, SLICE("tool"));
    const struct catalog_action *action = catalog_find_tool(*request->web->config.catalog, app);
    if (!json_is(targets, JSON_ARRAY) || targets->count == 0)
        return;
    if (action)
        app = action->integration->integration_id;
    if (decision->targets) {
        decision->has_more_targets |= !slice_eq(app, decision->target_app) ||
                                      !are_same_targets(targets, decision->targets);
        return;
    }
    decision->targets = targets;
    decision->target_app = app;
    decision->target = json_get_str(&targets->as.items[0], SLICE("name"));
    if (decision->target.len == 0)
        decision->target = json_get_str(&targets->as.items[0], SLICE("id"));
}

static const struct json *parse_text(struct web_request *request, slice text)
{
    return text.len > 0 ? json_parse(&request->serve.op.arena, text, &json_limits_provider, NULL)
                        : NULL;
}

static struct decision decision_of(struct web_request *request, const struct flow_inbox_row *row)
{
    const struct json *document = parse_text(request, row->document);
    struct decision decision = {.calls = row->calls, .level_max = LEVEL_READ};
    if (document) {
        decision.title = json_get_str(document, SLICE("title"));
        decision.summary = json_get_str(document, SLICE("summary"));
        decision.domains = JSON_GET(document, "domains");
        decision.items = JSON_GET(document, "items");
        decision.calls = json_is(decision.items, JSON_ARRAY) ? decision.items->count : 0;
    } else {
        decision.title = row->title;
        decision.summary = row->summary;
        decision.domains = parse_text(request, row->domains);
        decision.items = parse_text(request, row->uses);
        for (slice tools = row->tools; tools.len > 0;)
            add_tool(request, &decision, slice_split(&tools, ' '));
    }
    for (size_t i = 0; json_is(decision.items, JSON_ARRAY) && i < decision.items->count; i++) {
        add_tool(request, &decision, json_get_str(&decision.items->as.items[i], SLICE("tool")));
        add_target(request, &decision, &decision.items->as.items[i]);
    }
    return decision;
}

static void write_apps(const struct decision *decision, struct json_writer *w)
{
    json_member_open(w, "apps", '[');
    for (size_t i = 0; i < decision->action_count; i++) {
        const struct catalog_integration *app = decision->actions[i]->integration;
        json_open(w, '{');
        json_member_str(w, "name", app->name);
        view_app_mark(w, app->integration_id, app->name);
        json_close(w, '}');
    }
    json_close(w, ']');
    json_member_str(w, "effect", slice_cstr(catalog_level_name(decision->level_max)));
    json_member_bool(w, "is_final", decision->is_final);
}

/* Returns the time left, in words, if it is less than a day. Returns SLICE_NONE if there is more
 * time, no time left, or no expiry. */
static slice left_of(struct web_request *request, int64_t left)
{
    enum { DAY_S = 24 * 60 * 60 };
    bool is_soon = left > 0 && left < INT64_C(1000000) * DAY_S;
    return is_soon ? view_span(&request->serve.op.arena, left) : SLICE_NONE;
}

/* The summary of a held call says why it is held, and for whom. */
static slice why_of(const struct flow_inbox_row *row, const struct decision *decision)
{
    return slice_eq_cstr(row->template_key, FLOW_HELD_KEY) ? decision->summary : SLICE("");
}

/* names: NULL: the places, the connections and the reason are not shown. A decision that has
 * expired waits until its timer runs. */
static void write_waiting(struct web_request *request, struct json_writer *w,
                          const struct flow_inbox_row *row, const struct decision *decision,
                          struct flow_names *names)
{
    slice name = view_template_name(request, row->template_key);
    int64_t left = row->wake_at != 0 ? row->wake_at - clock_shared_us() : INT64_MAX;
    json_open(w, '{');
    view_id(w, "id", row->id);
    json_member_str(w, "title", decision->title.len > 0 ? decision->title : name);
    json_member_str(w, "template", name);
    json_member_str(w, "asker", row->asker.len > 0 ? row->asker : row->actor);
    json_member_bool(w, "is_own", flow_actor_is_own(request, row->actor));
    view_time(w, "since_at", names ? row->updated_at : 0);
    view_time(w, "until_at", row->wake_at);
    json_member_bool(w, "is_expired", left <= 0);
    json_member_str(w, "left", left_of(request, left));
    json_member_bool(w, "leaves", effect_any_leaves(request, decision->domains));
    json_member_i64(w, "calls", decision->calls);
    bool is_read = decision->action_count > 0 && decision->level_max == LEVEL_READ;
    json_member_str(w, "noun", is_read ? SLICE("read") : SLICE("write"));
    json_member_str(w, "why", names ? why_of(row, decision) : SLICE(""));
    json_member_str(w, "target", names ? decision->target : SLICE(""));
    json_member_bool(w, "has_more_targets", decision->has_more_targets);
    view_writes_as(request, names, names ? decision->items : NULL, w);
    write_apps(decision, w);
    json_close(w, '}');
}

void view_waiting(struct web_request *request, struct json_writer *w,
                  const struct flow_inbox_row *row)
{
    const struct decision decision = decision_of(request, row);
    write_waiting(request, w, row, &decision, NULL);
}

/* ---- the page ---- */

static void write_template(struct json_writer *w, slice key, slice name, slice description)
{
    json_open(w, '{');
    json_member_str(w, "key", key);
    json_member_str(w, "name", name);
    json_member_str(w, "description", description);
    json_close(w, '}');
}

/* Held calls have no template in the set, and their flows are listed like others. */
void view_templates(struct web_request *request, struct json_writer *w)
{
    const struct flow_template_set *set = *request->web->config.templates;
    json_member_open(w, "templates", '[');
    for (size_t i = 0; i < set->count; i++)
        if (web_gives_flow(request, set->items[i]->key))
            write_template(w, set->items[i]->key, set->items[i]->name, set->items[i]->description);
    write_template(w, SLICE(FLOW_HELD_KEY), SLICE(FLOW_HELD_NAME), SLICE(""));
    json_close(w, ']');
}

/* A page of waiting decisions is limited, since a document is read and parsed for each of its
 * rows. */
enum {
    ROWS_MAX = 20,
    DECIDED_MAX = 15,
    DECIDED_READ_MAX = 4 * DECIDED_MAX, /* includes flows that were resumed or cancelled */
    DECIDED_MS = 7 * 24 * 60 * 60 * 1000,
};

struct approvals {
    struct flow_inbox_filter filter;
    struct flow_inbox_row *waiting;
    struct decision *to_decide; /* one for each of them */
    struct flow_asker *askers;
    struct audit_event *decided;
    size_t waiting_count, asker_count, decided_count;
    bool is_more;
    struct pg_query decisions, askers_query; /* request->query: the inbox */
    struct pg_query titles[DECIDED_MAX];     /* of flows whose decision has no title */
    struct flow_names *names;
};

/* Returns the flow of a decision, or the nil id if the event does not name it. */
static struct uuid flow_of(struct web_request *request, const struct audit_event *event,
                           const struct json **details)
{
    struct uuid id;
    *details = json_parse(&request->serve.op.arena, event->details, &json_limits_request, NULL);
    bool is_read = uuid_parse(json_get_str(*details, SLICE("flow_id")), &id);
    return is_read ? id : (struct uuid){{0}};
}

static bool is_approval(const struct audit_event *event)
{
    return slice_eq(event->kind, audit_kind_name(AUDIT_FLOW_APPROVED));
}

/* Keeps only approvals and rejections, at most DECIDED_MAX. Returns their number. */
static size_t keep_decisions(struct audit_event *list, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count && kept < DECIDED_MAX; i++)
        if (is_approval(&list[i]) || slice_eq(list[i].kind, audit_kind_name(AUDIT_FLOW_REJECTED)))
            list[kept++] = list[i];
    return kept;
}

/* Returns the title of the approval. An event of an earlier version does not have it: then it is
 * the flow's title or, if retention has removed the flow, its id. */
static slice title_of_decision(const struct web_request *request, const struct pg_query *query,
                               const struct json *details, slice id)
{
    struct flow_title found;
    slice asked = json_get_str(details, SLICE("title"));
    if (asked.len > 0)
        return asked;
    if (!query->stmt || store_flow_title_result(query, &found) != OK)
        return id;
    return found.title.ptr ? found.title : view_template_name(request, found.template_key);
}

/* Writes the choices of a filter. */
static void write_askers(const struct approvals *page, struct json_writer *w)
{
    json_member_open(w, "askers", '[');
    for (size_t i = 0; i < page->asker_count; i++) {
        const struct flow_asker *asker = &page->askers[i];
        json_open(w, '{');
        json_member_str(w, "actor", asker->actor);
        json_member_str(w, "name", asker->name.len > 0 ? asker->name : asker->actor);
        json_close(w, '}');
    }
    json_close(w, ']');
}

static void write_decided(struct web_request *request, const struct approvals *page,
                          struct json_writer *w)
{
    json_member_open(w, "decided", '[');
    for (size_t i = 0; i < page->decided_count; i++) {
        const struct audit_event *event = &page->decided[i];
        const struct json *details;
        (void)flow_of(request, event, &details);
        slice id = json_get_str(details, SLICE("flow_id"));
        json_open(w, '{');
        json_member_bool(w, "is_approved", is_approval(event));
        json_member_str(w, "flow", id);
        json_member_str(w, "title", title_of_decision(request, &page->titles[i], details, id));
        json_member_str(w, "note", json_get_str(details, SLICE("note")));
        json_member_str(w, "by", flow_names_actor(page->names, event->by.actor));
        view_time(w, "at", uuid_v7_wall_ms(event->id) * 1000);
        json_close(w, '}');
    }
    json_close(w, ']');
}

static enum op_result finish_approvals(struct web_request *request)
{
    const struct approvals *page = request->state;
    const struct flow_inbox_filter *filter = &page->filter;
    struct json_writer *w = view_begin(request);
    /* One row more than the page shows was requested, to know whether there are more. */
    bool is_more = page->is_more;
    json_member_open(w, "waiting", '[');
    for (size_t i = 0; i < page->waiting_count && i < ROWS_MAX; i++)
        write_waiting(request, w, &page->waiting[i], &page->to_decide[i], page->names);
    json_close(w, ']');
    json_member_i64(w, "from", filter->skip);
    json_member_i64(w, "before", filter->skip > ROWS_MAX ? filter->skip - ROWS_MAX : 0);
    json_member_i64(w, "next", is_more ? filter->skip + ROWS_MAX : 0);
    json_member_bool(w, "is_cut", filter->skip + (int64_t)page->waiting_count == FLOW_INBOX_MAX);
    view_templates(request, w);
    write_askers(page, w);
    json_member_str(w, "template", filter->template_key);
    json_member_str(w, "asker", filter->actor);
    write_decided(request, page, w);
    return web_reply_view(request, 200, "approvals");
}

/* Reads the waiting decisions. Returns the calls of all of them, whose connections get names; NULL:
 * there is no memory. */
static const struct json *read_waiting(struct web_request *request, struct approvals *page)
{
    struct arena *arena = &request->serve.op.arena;
    struct json *all = ARENA_NEW(arena, struct json);
    size_t count = 0;
    page->to_decide = ARENA_ARRAY(arena, struct decision, page->waiting_count + 1);
    if (!all || !page->to_decide)
        return NULL;
    for (size_t i = 0; i < page->waiting_count; i++) {
        page->to_decide[i] = decision_of(request, &page->waiting[i]);
        if (json_is(page->to_decide[i].items, JSON_ARRAY))
            count += page->to_decide[i].items->count;
    }
    *all =
        (struct json){.type = JSON_ARRAY, .as.items = ARENA_ARRAY(arena, struct json, count + 1)};
    for (size_t i = 0; all->as.items && i < page->waiting_count; i++) {
        const struct json *items = page->to_decide[i].items;
        for (size_t j = 0; json_is(items, JSON_ARRAY) && j < items->count; j++)
            all->as.items[all->count++] = items->as.items[j];
    }
    return all->as.items ? all : NULL;
}

static enum op_result name_deciders(struct web_request *request)
{
    struct approvals *page = request->state;
    slice actors[DECIDED_MAX];
    struct uuid next;
    int status = store_flow_inbox_result(&request->query, &page->waiting, &page->waiting_count);
    if (status == OK)
        status = store_flow_askers_result(&page->askers_query, &page->askers, &page->asker_count);
    if (status == OK)
        status =
            store_audit_list_result(&page->decisions, &page->decided, &page->decided_count, &next);
    if (status != OK)
        return web_reply_database(request, status);
    page->is_more = page->waiting_count > ROWS_MAX;
    /* an event does not say which calls its flow has: with a policy none is shown */
    page->decided_count =
        request->serve.policy ? 0 : keep_decisions(page->decided, page->decided_count);
    for (size_t i = 0; i < page->decided_count; i++) {
        const struct json *details;
        struct uuid id = flow_of(request, &page->decided[i], &details);
        actors[i] = page->decided[i].by.actor;
        if (!uuid_is_nil(id) && json_get_str(details, SLICE("title")).len == 0)
            store_flow_title(request->web->config.pool, &page->titles[i], &request->serve.op,
                             request->session.account_id, id);
    }
    const struct json *calls = read_waiting(request, page);
    if (!calls)
        return web_reply_database(request, ERR_NOMEM);
    return flow_names_begin(request, actors, page->decided_count, calls, &page->names,
                            finish_approvals);
}

slice web_given_flows(const struct web_request *request)
{
    if (!request->serve.policy)
        return SLICE_NONE;
    return request->given ? request->given->versions : SLICE("");
}

bool web_gives_flow(struct web_request *request, slice template_key)
{
    const struct flow_template *tmpl =
        request->serve.policy
            ? flow_template_set_find(*request->web->config.templates, template_key)
            : NULL;
    return !request->serve.policy ||
           (tmpl && !flow_is_hidden(tmpl, *request->web->config.catalog, request->serve.policy));
}

/* Reads where the page begins; an invalid position means the beginning. */
static int64_t read_from(struct web_request *request)
{
    uint64_t from;
    return slice_to_u64(web_query(request, "from"), FLOW_INBOX_MAX, &from) ? (int64_t)from : 0;
}

enum op_result web_approvals(struct web_request *request)
{
    struct pg_pool *pool = request->web->config.pool;
    struct uuid account_id = request->session.account_id;
    struct approvals *page = web_state_new(request, sizeof(*page));
    int64_t now_ms = clock_shared_us() / 1000;
    /* The margin of a minute is for nodes with fast clocks. */
    const struct store_page decided = {.before = uuid_v7_floor(now_ms + 60000),
                                       .since = uuid_v7_floor(now_ms - DECIDED_MS),
                                       .count_max = DECIDED_READ_MAX};
    if (!page)
        return OP_DONE;
    page->filter = (struct flow_inbox_filter){.template_key = web_query(request, "template"),
                                              .actor = web_query(request, "asker"),
                                              .given = web_given_flows(request),
                                              .payer_id = serve_payer(&request->serve),
                                              .skip = read_from(request),
                                              .count_max = ROWS_MAX + 1};
    store_flow_inbox(pool, &request->query, &request->serve.op, account_id, &page->filter);
    store_flow_askers(pool, &page->askers_query, &request->serve.op, account_id,
                      page->filter.template_key, page->filter.given, page->filter.payer_id);
    store_audit_list(pool, &page->decisions, &request->serve.op, account_id, &decided,
                     SLICE("flow"), SLICE_NONE);
    return web_wait(request, name_deciders);
}
