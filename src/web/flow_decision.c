/*
 * A flow's waiting decision, for its page: each call with its connection, its effect and exactly
 * what is sent, and the names of the keys that asked and decided. The names are read from the
 * database first, all at the same time.
 */
#include "catalog/target.h"
#include "store/audit.h"
#include "store/connection.h"
#include "web/app.h"
#include "web/flow_verdict.h"

/* Connections with names; further ones are shown by id. */
enum { CONNECTIONS_MAX = 8, KEYS_MAX = 16 };

struct flow_names {
    struct flow_connection {
        slice integration_id;
        int64_t id; /* 0: the app's default */
        struct web_connection read;
    } connections[CONNECTIONS_MAX];
    struct flow_key {
        slice actor;
        struct pg_query query;
    } keys[KEYS_MAX];
    size_t connection_count, key_count;
};

/* A tool that is no longer in the catalog has no action. */
static const struct catalog_action *action_of(const struct web_request *request,
                                              const struct json *item)
{
    return catalog_find_tool(*request->web->config.catalog, json_get_str(item, SLICE("tool")));
}

/* Returns 0 if the call names no connection. An id may be a number or a text. */
static int64_t connection_id_of(const struct json *item)
{
    const struct json *value = JSON_GET(item, "connection");
    int64_t id = 0;
    bool is_read = json_is(value, JSON_STRING) ? slice_to_i64(json_str(value), &id)
                                               : value && json_to_i64(value, &id);
    return is_read ? id : 0;
}

static struct flow_connection *find_connection(struct flow_names *names, slice integration_id,
                                               int64_t id)
{
    for (size_t i = 0; i < names->connection_count; i++)
        if (names->connections[i].id == id &&
            slice_eq(names->connections[i].integration_id, integration_id))
            return &names->connections[i];
    return NULL;
}

static void load_connection_of(struct web_request *request, struct flow_names *names,
                               const struct json *item)
{
    const struct catalog_action *action = action_of(request, item);
    struct pg_pool *pool = request->web->config.pool;
    struct uuid account_id = request->session.account_id;
    int64_t id = connection_id_of(item);
    if (!action || names->connection_count == CONNECTIONS_MAX ||
        find_connection(names, action->integration->integration_id, id))
        return;
    struct flow_connection *connection = &names->connections[names->connection_count++];
    connection->integration_id = action->integration->integration_id;
    connection->id = id;
    if (id != 0) {
        web_connection_load(request, &connection->read, id);
        return;
    }
    store_connection_choice(pool, &connection->read.own, &request->serve.op, account_id,
                            connection->integration_id);
    if (!uuid_is_nil(request->session.parent_id))
        store_connection_shared(pool, &connection->read.shared, &request->serve.op,
                                request->session.parent_id, connection->integration_id);
}

static struct flow_key *find_key(struct flow_names *names, slice actor)
{
    for (size_t i = 0; i < names->key_count; i++)
        if (slice_eq(names->keys[i].actor, actor))
            return &names->keys[i];
    return NULL;
}

static void ask_key(struct web_request *request, struct flow_names *names, slice actor)
{
    struct uuid id = audit_actor_key(actor);
    if (uuid_is_nil(id) || names->key_count == KEYS_MAX || find_key(names, actor))
        return;
    struct flow_key *key = &names->keys[names->key_count++];
    key->actor = actor;
    store_api_key_name(request->web->config.pool, &key->query, &request->serve.op,
                       serve_payer(&request->serve), id);
}

enum op_result flow_names_begin(struct web_request *request, const slice *actors, size_t count,
                                const struct json *items, struct flow_names **out, web_step *then)
{
    struct flow_names *names = ARENA_NEW(&request->serve.op.arena, struct flow_names);
    *out = names;
    if (!names)
        return web_reply_database(request, ERR_NOMEM);
    for (size_t i = 0; i < count; i++)
        ask_key(request, names, actors[i]);
    for (size_t i = 0; json_is(items, JSON_ARRAY) && i < items->count; i++)
        load_connection_of(request, names, &items->as.items[i]);
    return request->serve.op.holds > 0 ? web_wait(request, then) : then(request);
}

bool flow_actor_is_own(struct web_request *request, slice actor)
{
    return slice_eq(actor, serve_actor(&request->serve));
}

slice flow_names_actor(struct flow_names *names, slice actor)
{
    const struct flow_key *key = find_key(names, actor);
    slice name;
    bool is_known = key && store_text_result(&key->query, &name) == OK && name.len > 0;
    return is_known ? name : actor;
}

/* The choices for a call that names no connection: a user without any has those that the account
 * shares, as the call itself does. */
static int read_choice(const struct web_request *request, const struct web_connection *read,
                       struct connection **list, size_t *count)
{
    int status = store_connection_list_result(&read->own, list, count);
    if (status != OK || *count > 0 || uuid_is_nil(request->session.parent_id))
        return status;
    return store_connection_list_result(&read->shared, list, count);
}

struct meant {
    int64_t id;   /* of the connection; 0: not known yet */
    bool is_lent; /* the account's, which it shares with the page's user */
    bool is_there;
};

/* Returns the label of an item's connection, or SLICE_NONE if it is unknown. */
static slice label_connection(struct web_request *request, struct flow_names *names,
                              const struct json *item, struct meant *meant)
{
    const struct catalog_action *action = action_of(request, item);
    int64_t id = connection_id_of(item);
    struct connection row, *list = &row;
    size_t count = 1;
    *meant = (struct meant){.id = id};
    const struct flow_connection *connection =
        action ? find_connection(names, action->integration->integration_id, id) : NULL;
    bool is_read = connection &&
                   (id != 0 ? web_connection_result(request, &connection->read, &row)
                            : read_choice(request, &connection->read, &list, &count)) == OK;
    /* Without a default a call uses the only connection, and is refused if there are several. */
    if (is_read && count > 0 && (id != 0 || list[0].is_default || count == 1)) {
        *meant = (struct meant){list[0].id, web_connection_is_lent(request, &list[0]), true};
        return app_acts_as(&list[0]).ptr ? app_acts_as(&list[0]) : list[0].label;
    }
    return id != 0 ? arena_printf(&request->serve.op.arena, "connection %lld", (long long)id)
                   : SLICE_NONE;
}

slice flow_names_label(struct web_request *request, struct flow_names *names,
                       const struct json *item)
{
    struct meant meant;
    return label_connection(request, names, item, &meant);
}

void view_writes_as(struct web_request *request, struct flow_names *names, const struct json *items,
                    struct json_writer *w)
{
    int64_t known[CONNECTIONS_MAX];
    size_t count = 0;
    json_member_open(w, "writes_as", '[');
    for (size_t i = 0; json_is(items, JSON_ARRAY) && i < items->count && count < CONNECTIONS_MAX;
         i++) {
        const struct catalog_action *action = action_of(request, &items->as.items[i]);
        struct meant meant;
        slice label = label_connection(request, names, &items->as.items[i], &meant);
        bool is_new = action && meant.id != 0;
        for (size_t j = 0; j < count && is_new; j++)
            is_new = known[j] != meant.id;
        if (!is_new)
            continue;
        known[count++] = meant.id;
        json_open(w, '{');
        json_member_i64(w, "id", meant.is_there ? meant.id : 0); /* 0: it has no page */
        json_member_bool(w, "is_lent", meant.is_lent);
        json_member_str(w, "label",
                        label.len > 0 ? label
                                      : arena_printf(&request->serve.op.arena, "connection %lld",
                                                     (long long)meant.id));
        view_app_mark(w, action->integration->integration_id, action->integration->name);
        json_close(w, '}');
    }
    json_close(w, ']');
}

/* Writes the ids whose meaning was not read. is_said: a place of the call already says so. */
static void write_unread(struct web_request *request, const struct json *item,
                         const struct catalog_action *action, const struct json *shows,
                         bool is_said, struct json_writer *w)
{
    struct json list = json_array();
    if (action && !is_said)
        list = target_unread(action, JSON_GET(item, "input"), shows, &request->serve.op.arena);
    json_member(w, "unread", &list);
}

/* Writes where the call writes, and what its ids mean in the app's words, which were stored with
 * the approval. An older approval has neither; the place is then known from the input. */
static void write_target(struct web_request *request, const struct json *item,
                         const struct catalog_action *action, struct json_writer *w)
{
    const struct json *shows = JSON_GET(item, "shows"), *target = JSON_GET(item, "target");
    struct json made = json_array();
    if (!target && action)
        made = target_of(action, JSON_GET(item, "input"), shows, &request->serve.op.arena);
    target = json_is(target, JSON_ARRAY) ? target : &made;
    bool is_unread_said = false;
    json_member_open(w, "target", '[');
    for (uint32_t i = 0; i < target->count; i++) {
        const struct json *one = &target->as.items[i];
        json_open(w, '{');
        json_member_str(w, "label", json_get_str(one, SLICE("label")));
        json_member_str(w, "name", json_get_str(one, SLICE("name")));
        json_member_str(w, "id", json_get_str(one, SLICE("id")));
        bool is_unread = json_get_bool(one, SLICE("unread"), false);
        is_unread_said |= is_unread;
        json_member_bool(w, "is_unread", is_unread);
        json_close(w, '}');
    }
    json_close(w, ']');
    json_member_open(w, "shows", '[');
    for (uint32_t i = 0; json_is(shows, JSON_OBJECT) && i < shows->count; i++) {
        json_open(w, '{');
        json_member_str(w, "name", json_str(&shows->as.members[i].key));
        json_member_str(w, "text", json_str(&shows->as.members[i].value));
        json_close(w, '}');
    }
    json_close(w, ']');
    write_unread(request, item, action, shows, is_unread_said, w);
}

/* Writes the headline first, then all fields, which are folded. */
static void write_item(struct web_request *request, struct flow_names *names,
                       const struct json *item, const struct titled_steps *steps, size_t i,
                       struct json_writer *w)
{
    slice tool = json_get_str(item, SLICE("tool"));
    const struct json *input = JSON_GET(item, "input");
    const struct catalog_action *action = action_of(request, item);
    slice changed = json_get_str(JSON_GET(item, "changes"), SLICE("title"));
    slice headline = changed.len > 0 ? changed : value_headline(input);
    json_open(w, '{');
    json_member_i64(w, "number", (int64_t)i + 1);
    json_member_str(w, "headline", headline);
    json_member_str(w, "what", action ? action->title : tool);
    json_member_str(w, "app", action ? action->integration->name : SLICE_NONE);
    view_app_mark(w, action ? action->integration->integration_id : tool,
                  action ? action->integration->name : tool);
    json_member_str(w, "effect", effect_verb(action));
    json_member_bool(w, "is_final", effect_is_final(action));
    write_target(request, item, action, w);
    view_recipients(request, w, action, input);
    view_changes(w, item, steps);
    json_member_bool(w, "conditional", json_get_bool(item, SLICE("conditional"), false));
    json_member_str(w, "as", flow_names_label(request, names, item));
    value_view_brief(w, input, headline, effect_fields(action, &request->serve.op.arena));
    value_view(w, "fields", input);
    value_view_text(w, "exact", input, VALUE_TEXT_BYTES_MAX);
    json_close(w, '}');
}

/* Writes all calls of one action, starting with the call at `first`. */
static void write_group(struct web_request *request, const struct json *items, size_t first,
                        struct json_writer *w)
{
    slice tool = json_get_str(&items->as.items[first], SLICE("tool"));
    const struct catalog_action *action = action_of(request, &items->as.items[first]);
    struct reach reach;
    int64_t times = 0;
    reach_begin(&reach, request);
    for (size_t i = first; i < items->count; i++)
        if (slice_eq(json_get_str(&items->as.items[i], SLICE("tool")), tool)) {
            times++;
            reach_add(&reach, action, JSON_GET(&items->as.items[i], "input"));
        }
    json_open(w, '{');
    json_member_i64(w, "times", times);
    json_member_str(w, "what", action ? action->title : tool);
    json_member_str(w, "app", action ? action->integration->name : SLICE_NONE);
    json_member_str(w, "icon", effect_icon(action));
    json_member_str(w, "reach", reach_end(&reach));
    json_close(w, '}');
}

/* Writes the number of calls by action, such as "2 x Create a page", in the order of the calls. */
static void write_impact(struct web_request *request, const struct json *items,
                         struct json_writer *w)
{
    size_t count = json_is(items, JSON_ARRAY) ? items->count : 0;
    json_member_open(w, "impact", '[');
    for (size_t i = 0; i < count; i++) {
        slice tool = json_get_str(&items->as.items[i], SLICE("tool"));
        bool is_first = true;
        for (size_t j = 0; j < i && is_first; j++)
            is_first = !slice_eq(json_get_str(&items->as.items[j], SLICE("tool")), tool);
        if (is_first)
            write_group(request, items, i, w);
    }
    json_close(w, ']');
}

/* Only the call of a held flow can be a read that is approved. */
static bool are_reads(const struct web_request *request, const struct json *items)
{
    size_t count = json_is(items, JSON_ARRAY) ? items->count : 0;
    for (size_t i = 0; i < count; i++) {
        const struct catalog_action *action = action_of(request, &items->as.items[i]);
        if (!action || action->level != LEVEL_READ)
            return false;
    }
    return count > 0;
}

void view_decision(struct web_request *request, struct flow_names *names, const struct flow *flow,
                   slice asker, const struct json *step, const struct titled_steps *steps,
                   bool may_decide, bool is_kin, struct json_writer *w)
{
    const struct json *input = JSON_GET(step, "input"), *items = JSON_GET(input, "items");
    size_t count = json_is(items, JSON_ARRAY) ? items->count : 0;
    json_member_open(w, "decision", '{');
    json_member_str(w, "id", request->serve.match.params[0]);
    /* The revision binds the decision to what this page shows (flow_do.c). */
    json_member_i64(w, "rev", flow->rev);
    json_member_str(w, "step", json_get_str(step, SLICE("stepKey")));
    json_member_str(w, "title", json_get_str(input, SLICE("title")));
    json_member_str(w, "summary", json_get_str(input, SLICE("summary")));
    json_member_str(w, "asker", flow_names_actor(names, asker));
    json_member_bool(w, "is_own", flow_actor_is_own(request, asker));
    json_member_str(w, "asked_at", json_get_str(step, SLICE("startedAt")));
    json_member_str(w, "until_at", json_get_str(step, SLICE("expiresAt")));
    json_member_str(w, "note", web_field(request, "note"));
    json_member_i64(w, "count", (int64_t)count);
    json_member_bool(w, "may_decide", may_decide);
    json_member_bool(w, "is_kin", is_kin);
    json_member_str(w, "noun", are_reads(request, items) ? SLICE("read") : SLICE("write"));
    write_impact(request, items, w);
    json_member_open(w, "items", '[');
    for (size_t i = 0; i < count; i++)
        write_item(request, names, &items->as.items[i], steps, i, w);
    json_close(w, ']');
    json_close(w, '}');
}
