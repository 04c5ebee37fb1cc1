/*
 * The provider's state as a whole, and the dispatch of each request to its app.
 */
#include "provider/provider.h"

#include "base/embed.h"
#include "provider/fault.h"
#include "provider/gmail.h"
#include "provider/ledger.h"
#include "provider/notion.h"
#include "provider/token.h"

const struct json *provider_data(struct arena *arena, const char *name)
{
    struct err err = {0};
    for (size_t i = 0; i < embed_provider_count; i++)
        if (!strcmp(embed_provider[i].name, name))
            return json_parse(arena, slice_of(embed_provider[i].data, embed_provider[i].len),
                              &json_limits_request, &err);
    return NULL;
}

struct json provider_object(struct arena *arena, const char *keys, const struct json *values,
                            size_t count)
{
    struct json out = json_object();
    slice rest = slice_cstr(keys);
    for (size_t i = 0; i < count; i++)
        json_object_set(arena, &out, slice_split(&rest, ' '), values[i]);
    ASSERT(!rest.ptr);
    return out;
}

struct json provider_merged(struct arena *arena, const struct json *object, const struct json *over)
{
    struct json out = provider_copy(arena, object);
    for (uint32_t i = 0; json_is(over, JSON_OBJECT) && i < over->count; i++)
        json_object_put(arena, &out, json_str(&over->as.members[i].key), over->as.members[i].value);
    return out;
}

struct json provider_copy(struct arena *arena, const struct json *object)
{
    struct json out = json_object();
    for (uint32_t i = 0; json_is(object, JSON_OBJECT) && i < object->count; i++)
        json_object_set(arena, &out, json_str(&object->as.members[i].key),
                        object->as.members[i].value);
    return out;
}

bool provider_wants(const struct provider_request *request, slice name, slice value)
{
    bool is_there = false;
    for (size_t i = 0; i < request->query_count; i++) {
        if (!slice_starts_with(request->query[i].name, name))
            continue;
        is_there = true;
        if (slice_eq_nocase(request->query[i].value, value))
            return true;
    }
    return !is_there;
}

bool provider_eval(struct arena *arena, const struct json *tree, const struct json *scope,
                   struct json *out)
{
    struct expr_budget budget;
    struct err err;
    struct expr_template *template = expr_template_compile(arena, tree, &err);
    expr_budget_init(&budget);
    return template && expr_template_eval(template, scope, 0, &budget, arena, out, &err) == OK;
}

static void free_world(struct provider *provider)
{
    gmail_free(provider->gmail);
    notion_free(provider->notion);
    ledger_free(provider->ledger);
    provider->gmail = NULL;
    provider->notion = NULL;
    provider->ledger = NULL;
}

static bool make_world(struct provider *provider, int64_t now_us)
{
    provider->rng.state = provider->seed;
    provider->requests = 0;
    provider->gmail = gmail_new(provider);
    provider->notion = notion_new();
    provider->ledger = ledger_new();
    return provider->gmail && provider->notion && provider->ledger &&
           gmail_seed(provider->gmail, now_us) && notion_seed(provider, now_us);
}

bool provider_init(struct provider *provider, uint64_t seed, int64_t now_us)
{
    *provider = (struct provider){.seed = seed};
    provider->tokens = tokens_new();
    provider->faults = faults_new();
    if (provider->tokens && provider->faults && make_world(provider, now_us))
        return true;
    provider_deinit(provider);
    return false;
}

bool provider_reset(struct provider *provider, int64_t now_us)
{
    free_world(provider);
    faults_clear(provider->faults);
    return make_world(provider, now_us);
}

void provider_deinit(struct provider *provider)
{
    free_world(provider);
    faults_free(provider->faults);
    tokens_free(provider->tokens);
    provider->faults = NULL;
    provider->tokens = NULL;
}

enum app { APP_GMAIL, APP_NOTION, APP_OTHER };

static const char *const app_names[] = {"gmail", "notion", "other"};

static enum app app_of(const struct provider_request *request)
{
    slice first = request->segment_count ? request->segments[0] : SLICE_NONE;
    return slice_eq(first, SLICE("gmail")) ? APP_GMAIL
           : slice_eq(first, SLICE("v1"))  ? APP_NOTION
                                           : APP_OTHER;
}

static struct call call_of(struct provider *provider, const struct provider_request *request,
                           struct provider_reply *reply, enum app app)
{
    return (struct call){.provider = provider,
                         .http = request,
                         .arena = request->arena,
                         .reply = reply,
                         .app = app_names[app]};
}

void provider_handle(struct provider *provider, struct provider_request *request,
                     struct provider_reply *reply)
{
    enum app app = app_of(request);
    struct call call = call_of(provider, request, reply, app);
    reply->status = 0;
    if (request->segment_count && slice_eq(request->segments[0], SLICE("__control"))) {
        control_handle(&call);
        return;
    }
    provider->requests++;
    if (app == APP_GMAIL)
        gmail_handle(&call);
    else if (app == APP_NOTION)
        notion_handle(&call);
    else if (!generic_handle(provider, request, reply))
        reply_error(reply, 404, "nothing here");
    ASSERT(reply->status);
    ledger_count(provider->ledger, app_names[app], reply->status);
}

void provider_fail(struct provider *provider, const struct provider_request *request,
                   const struct fault *fault, struct provider_reply *reply)
{
    enum app app = app_of(request);
    struct call call = call_of(provider, request, reply, app);
    bool is_counted = reply->status != 0; /* the request was carried out first */
    reply->header_count = 0;
    if (fault->body.ptr)
        reply_text(reply, fault->status,
                   fault->is_body_json ? SLICE("application/json; charset=utf-8")
                                       : SLICE("text/html; charset=utf-8"),
                   fault->body);
    else if (app == APP_GMAIL)
        gmail_error_plain(&call, fault->status);
    else if (app == APP_NOTION)
        notion_error_plain(&call, fault->status);
    else
        reply_error(reply, fault->status, http_status_text(fault->status));
    if (fault->retry_after_s >= 0)
        reply_header(reply, SLICE("Retry-After"),
                     arena_printf(request->arena, "%lld", (long long)fault->retry_after_s));
    if (is_counted)
        return;
    provider->requests++;
    ledger_count(provider->ledger, app_names[app], fault->status);
}
