/*
 * search_actions: actions and flow templates for one or several things that an agent wants to do.
 * The result has one line for each action or template (text from the catalog and from templates, no
 * data from outside). A program gets the same as JSON.
 */
#include "mcp/search.h"

#include "catalog/search.h"
#include "catalog/tool.h"
#include "connect/connect.h"
#include "flow/template.h"
#include "serve/foresee.h"

enum {
    QUERIES_MAX = 5,
    RESULTS_DEFAULT = 5, /* results for each query */
    RESULTS_MAX = 100,
    SIGNED_MAX = 3,    /* the first results of a query have a signature */
    TEMPLATES_MAX = 2, /* among the results of a query */
    SENTENCE_BYTES_MAX = 120,
    TEXT_BYTES_MAX = 256 * 1024,
};

/* A template is a result if it has this share of the query's words. */
static const float template_share_min = 0.7f;

struct found {
    const struct catalog_action *action; /* NULL: the result is `template` */
    const struct flow_template *template;
    size_t query;
    slice signature; /* SLICE_NONE: not one of the first results */
    enum connect_state state;
    size_t connections;
    bool is_high;
};

struct lookup {
    struct connect_apps loaded;
    struct arena *arena;
    struct search_request search; /* its query is one of `queries` */
    slice sentence;               /* `query`, whole; SLICE_NONE: there are `queries` */
    slice queries[QUERIES_MAX];
    size_t query_count, best[QUERIES_MAX]; /* the index of the query's best result; or SIZE_MAX */
    bool connected_only;
    const struct connection_app *apps;
    size_t app_count;
    struct found *found;
    size_t count, count_max;
};

/* ---- finding ---- */

static bool is_listed(struct lookup *lookup, const struct found *wanted, size_t *at)
{
    for (*at = 0; *at < lookup->count; ++*at)
        if (lookup->found[*at].action == wanted->action &&
            lookup->found[*at].template == wanted->template)
            return true;
    return false;
}

/* Returns false if out of memory. */
static bool sign(struct lookup *lookup, struct found *found)
{
    const struct catalog_action *action = found->action;
    if (!found->signature.ptr)
        found->signature = action ? catalog_tool_signature(action->action_id, action->input_schema,
                                                           action->examples, lookup->arena)
                                  : catalog_tool_signature(found->template->key,
                                                           found->template->input_schema, NULL,
                                                           lookup->arena);
    return found->signature.ptr != NULL;
}

/* Adds a result, unless it was found for an earlier query. It has a signature if it is one of the
 * first for any of its queries. Returns false if out of memory. */
static bool add_found(struct lookup *lookup, struct found found, size_t rank)
{
    size_t at;
    bool is_again = is_listed(lookup, &found, &at);
    if (rank == 0)
        lookup->best[found.query] = at;
    if (!is_again) {
        ASSERT(lookup->count < lookup->count_max);
        lookup->found[lookup->count++] = found;
    }
    return rank >= SIGNED_MAX || sign(lookup, &lookup->found[at]);
}

/* Adds templates that have nearly all words of the query. Returns false if out of memory. */
static bool find_templates(struct api_request *request, struct lookup *lookup, size_t query,
                           const struct flow_template **list, size_t *count)
{
    const struct flow_template_set *set = *request->api->config.templates;
    const struct catalog *catalog = *request->api->config.catalog;
    struct arena *arena = lookup->arena;
    /* A template can do all that a sentence asks for: the last part finds those of the whole. */
    bool is_last = lookup->sentence.ptr && lookup->query_count > 1 &&
                   query + 1 == lookup->query_count;
    for (size_t i = 0; i < set->count && *count < TEMPLATES_MAX; i++) {
        const struct flow_template *one = set->items[i];
        float share = 0;
        slice text = arena_printf(arena, "%.*s %.*s", SLICE_ARG(one->name),
                                  SLICE_ARG(catalog_summary(one->description)));
        if (!text.ptr || catalog_match(catalog, arena, lookup->queries[query], text, &share) != OK)
            return false;
        if (is_last && share < template_share_min &&
            catalog_match(catalog, arena, lookup->sentence, text, &share) != OK)
            return false;
        if (share >= template_share_min && api_may_start(request, one))
            list[(*count)++] = one;
    }
    return true;
}

static bool add_hit(struct api_request *request, struct lookup *lookup, size_t query,
                    const struct catalog_hit *hit, size_t rank)
{
    const struct catalog *catalog = *request->api->config.catalog;
    slice app = hit->integration->integration_id;
    const struct connection_app *own = connect_app_of(lookup->apps, lookup->app_count, app);
    /* a hit has only the head of the action, but its signature needs the schema */
    const struct catalog_integration *integration = catalog_find_integration(catalog, app, NULL);
    const struct catalog_action *action =
        integration ? catalog_find_action(integration, hit->action->action_id, NULL) : NULL;
    struct found found = {
        .action = action,
        .query = query,
        .state = connect_state_for(hit->integration, lookup->apps, lookup->app_count),
        .connections = own ? own->count : 0,
        .is_high = hit->is_high,
    };
    return action && add_found(lookup, found, rank);
}

/* Adds the results of a query, the templates last. */
static bool find_query(struct api_request *request, struct lookup *lookup, size_t query)
{
    const struct catalog *catalog = *request->api->config.catalog;
    const struct flow_template *templates[TEMPLATES_MAX];
    struct search_request search = lookup->search;
    struct catalog_hit *hits = NULL;
    size_t count = 0, template_count = 0;
    search.query = lookup->queries[query];
    lookup->best[query] = SIZE_MAX;
    if (!find_templates(request, lookup, query, templates, &template_count) ||
        catalog_search(catalog, lookup->arena, &search, &hits, &count) != OK)
        return false;
    if (template_count >= search.limit)
        template_count = search.limit - 1;
    if (count > search.limit - template_count)
        count = search.limit - template_count;
    for (size_t i = 0; i < count; i++)
        if (!add_hit(request, lookup, query, &hits[i], i))
            return false;
    for (size_t i = 0; i < template_count; i++)
        if (!add_found(lookup,
                       (struct found){.template = templates[i], .query = query, .is_high = true},
                       count > 0 ? i + 1 : i))
            return false;
    return true;
}

/* ---- the result as JSON ---- */

static void put_found(struct json_writer *w, const struct lookup *lookup, const struct found *found)
{
    const struct catalog_action *action = found->action;
    const struct flow_template *template = found->template;
    json_open(w, '{');
    json_member_str(w, "kind", action ? SLICE("action") : SLICE("template"));
    if (lookup->query_count > 1)
        json_member_str(w, "query", lookup->queries[found->query]);
    if (action) {
        json_member_str(w, "integration_id", action->integration->integration_id);
        json_member_str(w, "action_id", action->action_id);
    } else {
        json_member_str(w, "template", template->key);
    }
    json_member_str(w, "title", action ? action->title : template->name);
    json_member_str(w, "summary",
                    catalog_summary(action ? action->description : template->description));
    if (found->signature.ptr)
        json_member_str(w, "signature", found->signature);
    if (action) {
        json_member_str(w, "side_effect_level", slice_cstr(catalog_level_name(action->level)));
        json_member_bool(w, "connected", connect_state_is_live(found->state));
        json_member_str(w, "connection_state", slice_cstr(connect_state_name(found->state)));
    } else {
        json_member_str(w, "side_effect_level", template->writes ? SLICE("write") : SLICE("read"));
    }
    json_member_str(w, "relevance", found->is_high ? SLICE("high") : SLICE("low"));
    json_close(w, '}');
}

/* ---- the result as lines ---- */

static slice first_sentence(slice text)
{
    int64_t end = slice_find(text, SLICE(". "));
    return slice_first_utf8(end >= 0 ? slice_first(text, (size_t)end) : text, SENTENCE_BYTES_MAX);
}

/* A key that may not make links cannot connect an app. */
static void put_state(struct buf *out, const struct lookup *lookup, const struct found *found)
{
    const char *how = lookup->search.without_writes ? "a person has to connect it"
                                                    : "call connect_app first";
    if (found->state == CONNECT_AMBIGUOUS)
        buf_printf(out, "connected %zu times, so a call needs connection_id", found->connections);
    else if (found->state == CONNECT_NOT_CONNECTED)
        buf_printf(out, "not connected, %s", how);
    else if (found->state == CONNECT_REAUTH_REQUIRED)
        buf_printf(out, "has to be reconnected, %s", how);
    else
        buf_append(out, SLICE("connected"));
}

static void begin_line(struct buf *out)
{
    if (out->len > 0)
        buf_append_char(out, '\n');
}

/* Writes the signature and what the action does, or only its title if it is not among the first. */
static void put_result(struct buf *out, const struct lookup *lookup, const struct found *found)
{
    const struct catalog_action *action = found->action;
    const struct flow_template *template = found->template;
    slice name = action ? action->action_id : template->key;
    if (found->signature.ptr)
        name = found->signature;
    begin_line(out);
    if (action) {
        buf_printf(out, "%.*s %.*s  %s  ", SLICE_ARG(action->integration->integration_id),
                   SLICE_ARG(name), catalog_level_name(action->level));
        put_state(out, lookup, found);
    } else {
        buf_printf(out, "template %.*s  %s  call start_flow", SLICE_ARG(name),
                   template->writes ? "write" : "read");
    }
    buf_append(out, SLICE("  "));
    if (!action || found->signature.ptr)
        buf_append(out, first_sentence(action ? action->description : template->description));
    else
        buf_append(out, action->title);
}

/* Writes the query, and "nothing" or, if its best result is listed under an earlier query, the name
 * of that result. */
static void put_heading(struct buf *out, const struct lookup *lookup, size_t query)
{
    size_t best = lookup->best[query];
    buf_printf(out, "%.*s:", SLICE_ARG(json_excerpt(lookup->queries[query], lookup->arena)));
    if (best == SIZE_MAX) {
        buf_append(out, SLICE(" nothing"));
    } else if (lookup->found[best].query < query) {
        const struct found *found = &lookup->found[best];
        buf_printf(out, " %.*s (above)",
                   SLICE_ARG(found->action ? found->action->action_id : found->template->key));
    }
}

static void put_lines(struct buf *out, const struct lookup *lookup)
{
    size_t at = 0;
    for (size_t query = 0; query < lookup->query_count; query++) {
        if (lookup->query_count > 1) {
            begin_line(out);
            put_heading(out, lookup, query);
        }
        for (; at < lookup->count && lookup->found[at].query == query; at++)
            put_result(out, lookup, &lookup->found[at]);
    }
}

/* What the key may not run, for all searches; "": it may run all. */
static const char *limit_of(const struct search_request *search)
{
    if (search->without_writes && search->without_reads)
        return "This API key may run no actions, so none are listed.";
    if (search->without_writes)
        return "This API key only reads: actions that change something are not listed.";
    return search->without_reads ? "This API key only writes: actions that read are not listed."
                                 : "";
}

/* Says what to try if no result fits, and what the key may not run. Returns SLICE_NONE if there is
 * nothing to say, or if out of memory. */
static slice advice_of(const struct lookup *lookup)
{
    const char *limit = limit_of(&lookup->search), *advice = "";
    bool is_empty = false, has_high = false;
    for (size_t i = 0; i < lookup->query_count; i++)
        is_empty = is_empty || lookup->best[i] == SIZE_MAX;
    for (size_t i = 0; i < lookup->count; i++)
        has_high = has_high || lookup->found[i].is_high;
    if ((!has_high || is_empty) && lookup->connected_only)
        advice = lookup->search.without_writes
                     ? "Nothing fits in the connected apps. Search without connected_only."
                     : "Nothing fits in the connected apps. Search without connected_only, then "
                       "connect_app.";
    else if (!has_high || is_empty)
        advice = "Nothing fits well. Name one thing to do and the app in a few English words: send "
                 "a mail with gmail. list_apps lists the apps.";
    if (lookup->search.without_writes && lookup->search.without_reads)
        advice = "";
    return *limit || *advice
               ? arena_printf(lookup->arena, "%s%s%s", limit, *limit && *advice ? " " : "", advice)
               : SLICE_NONE;
}

/* ---- the call ---- */

static enum op_result reply_lookup(struct api_request *request, const struct lookup *lookup)
{
    struct mcp_message *message = request->outer;
    struct buf lines;
    slice advice = advice_of(lookup);
    buf_init(&lines, TEXT_BYTES_MAX);
    put_lines(&lines, lookup);
    message->list_lines = lines.len > 0 ? arena_take(lookup->arena, &lines) : SLICE("");
    message->list_end = advice;
    if (!message->list_lines.ptr)
        return api_reply_no_memory(request);
    struct json_writer *w = api_reply_open(request, TEXT_BYTES_MAX);
    json_member_open(w, "items", '[');
    for (size_t i = 0; i < lookup->count; i++)
        put_found(w, lookup, &lookup->found[i]);
    json_close(w, ']');
    if (advice.ptr)
        json_member_str(w, "hint", advice);
    return api_reply_close(request, 200);
}

static enum op_result finish_lookup(struct api_request *request)
{
    struct lookup *lookup = request->state;
    ASSERT(lookup);
    const struct catalog *catalog = *request->api->config.catalog;
    struct connection_app *apps = NULL;
    int status = connect_apps_result(&lookup->loaded, lookup->arena, &apps, &lookup->app_count);
    if (status != OK)
        return api_reply_database(request, status);
    lookup->apps = apps;
    /* among equal matches, connected apps come first; connected_only accepts no others */
    lookup->search.connected =
        connect_connected_flags(lookup->arena, catalog, apps, lookup->app_count);
    if (lookup->connected_only)
        lookup->search.allowed = lookup->search.connected;
    /* a sentence that asks for several things becomes several queries */
    if (lookup->sentence.ptr &&
        catalog_split(catalog, lookup->arena, lookup->sentence, lookup->queries, QUERIES_MAX,
                      &lookup->query_count) != OK)
        return api_reply_no_memory(request);
    lookup->count_max = lookup->query_count * lookup->search.limit;
    lookup->found = ARENA_ARRAY(lookup->arena, struct found, lookup->count_max);
    if (!lookup->search.connected || !lookup->found ||
        serve_unlisted(&request->serve, catalog, &lookup->search.unlisted) != OK)
        return api_reply_no_memory(request);
    for (size_t i = 0; i < lookup->query_count; i++)
        if (!find_query(request, lookup, i))
            return api_reply_no_memory(request);
    return reply_lookup(request, lookup);
}

/* Reads the queries. Returns the fault in them, SLICE_NONE: none. */
static slice read_queries(struct api_request *request, struct lookup *lookup)
{
    const struct json *many = json_given(request->arguments, SLICE("queries"));
    slice one = api_query_text(request, "query");
    if (one.ptr) {
        lookup->queries[lookup->query_count++] = one;
        lookup->sentence = one;
        return many ? SLICE("Give query or queries, not both") : SLICE_NONE;
    }
    if (!many)
        return SLICE("query is required: what you want to do, in words; or queries for several "
                     "things");
    bool is_good = many->type == JSON_ARRAY && many->count > 0 && many->count <= QUERIES_MAX;
    for (uint32_t i = 0; is_good && i < many->count; i++) {
        slice query = json_str(&many->as.items[i]);
        is_good = query.len > 0;
        lookup->queries[lookup->query_count++] = query;
    }
    return is_good ? SLICE_NONE : SLICE("queries must be a list of 1 to 5 texts");
}

static enum op_result begin_lookup(struct api_request *request)
{
    struct lookup *lookup = request->state;
    uint64_t limit;
    lookup->arena = &request->serve.op.arena;
    slice fault = read_queries(request, lookup);
    if (fault.ptr)
        return api_reply_error(request, 400, "%.*s", SLICE_ARG(fault));
    if (!api_query_bool(request, "connected_only", &lookup->connected_only) ||
        !api_query_clamped(request, "limit", RESULTS_DEFAULT, RESULTS_MAX, &limit))
        return OP_DONE;
    lookup->search = (struct search_request){
        .with_actions = true,
        .limit = (size_t)limit,
        /* a model gets only what it may run */
        .without_reads = !serve_may(&request->serve, SCOPE_EXECUTE_READ),
        .without_writes = !serve_may(&request->serve, SCOPE_EXECUTE_WRITE),
    };
    connect_apps_load(request->api->config.pool, &lookup->loaded, &request->serve.op,
                      request->serve.grant.account_id, request->serve.grant.parent_id);
    return api_wait(request, finish_lookup);
}

const struct api_endpoint mcp_search = {
    .scope = SCOPE_READ,
    .query = &(const struct api_names){.own = {"query", "queries", "connected_only", "limit"}},
    .begin = begin_lookup,
    .state_bytes = sizeof(struct lookup),
};
