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
    struct err err;
    size_t i = 0;
    while (strncmp(embed_provider[i].name, name, strlen(name)) != 0)
        ASSERT(++i < embed_provider_count);
    const struct json *data = json_parse(
        arena, slice_of(embed_provider[i].data, embed_provider[i].len), &json_limits_request, &err);
    ASSERT(data);
    return data;
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

struct json provider_copy(struct arena *arena, const struct json *object)
{
    struct json out = json_object();
    for (uint32_t i = 0; json_is(object, JSON_OBJECT) && i < object->count; i++)
        json_object_set(arena, &out, json_str(&object->as.members[i].key),
                        object->as.members[i].value);
    return out;
}

struct json provider_eval(struct arena *arena, const struct json *tree, const struct json *scope)
{
    struct shapes shapes;
    struct json one = OBJECT(arena, "one", *tree);
    shapes_init(&shapes, arena, &one);
    return shapes_make(&shapes, arena, SLICE("one"), scope);
}

static void make_world(struct provider *provider, int64_t now_us)
{
    provider->rng.state = provider->seed;
    provider->requests = 0;
    provider->gmail = gmail_new(provider);
    provider->notion = notion_new();
    provider->ledger = ledger_new();
    gmail_seed(provider->gmail, now_us);
    notion_seed(provider, now_us);
}

static void free_world(struct provider *provider)
{
    gmail_free(provider->gmail);
    notion_free(provider->notion);
    ledger_free(provider->ledger);
}

void provider_init(struct provider *provider, uint64_t seed, int64_t now_us)
{
    *provider = (struct provider){.seed = seed, .tokens = tokens_new(), .faults = faults_new()};
    make_world(provider, now_us);
}

void provider_reset(struct provider *provider, int64_t now_us)
{
    free_world(provider);
    faults_clear(provider->faults);
    make_world(provider, now_us);
}

void provider_deinit(struct provider *provider)
{
    if (!provider->tokens)
        return;
    free_world(provider);
    faults_free(provider->faults);
    tokens_free(provider->tokens);
}

/* Selects the app by the first segment of the path. */
static void choose_app(struct call *call)
{
    static const struct app other = {.name = "other", .handle = generic_handle};
    call->app = call_is_below(call, "gmail") ? &call->provider->gmail->app
                : call_is_below(call, "v1")  ? &call->provider->notion->app
                                             : &other;
}

static void count(struct call *call)
{
    call->provider->requests++;
    ledger_count(call->provider->ledger, call->app->name, call->reply->status);
}

void provider_handle(struct call *call)
{
    choose_app(call);
    if (call_is_below(call, "__control")) {
        control_handle(call);
        return;
    }
    call->app->handle(call);
    ASSERT(call->reply->status);
    count(call);
}

void provider_fail(struct call *call, const struct fault *fault)
{
    struct provider_reply *reply = call->reply;
    unsigned status = (unsigned)fault->status;
    bool is_counted = reply->status != 0; /* the request was carried out first */
    choose_app(call);
    reply->header_count = 0;
    if (fault->body.ptr)
        reply_text(reply, status,
                   fault->is_body_json ? SLICE("application/json; charset=utf-8")
                                       : SLICE("text/html; charset=utf-8"),
                   fault->body);
    else
        call_error(call, status);
    if (fault->retry_after_s >= 0)
        reply_header(reply, SLICE("Retry-After"),
                     arena_printf(call->arena, "%lld", (long long)fault->retry_after_s));
    if (!is_counted)
        count(call);
}
