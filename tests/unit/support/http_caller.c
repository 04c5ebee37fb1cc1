/*
 * See http_caller.h.
 */
#include "support/http_caller.h"

#include <stdio.h>

void caller_world_init(struct caller_world *world, const struct http_client_config *config,
                       const struct dns_config *dns, struct tls_context *tls,
                       const struct peer_script *scripts, size_t script_count)
{
    struct err err = {0};
    memset(world, 0, sizeof(*world));
    world->loop = loop_new(&err);
    ASSERT(world->loop);
    world->resolver = dns_resolver_new(world->loop, dns);
    world->policy = address_policy_new();
    ASSERT(world->resolver && world->policy);
    ASSERT(address_policy_allow(world->policy, SLICE("localhost"), &err) == OK);
    ASSERT(address_policy_allow(world->policy, SLICE("127.0.0.1"), &err) == OK);
    world->tls = tls;
    struct http_client_config full = config ? *config : (struct http_client_config){0};
    full.resolver = world->resolver;
    full.policy = world->policy;
    full.tls = tls;
    world->client = http_client_new(world->loop, &full, &err);
    ASSERT(world->client);
    http_peer_init(&world->peer, world->loop, scripts, script_count);
}

void caller_world_deinit(struct caller_world *world)
{
    http_client_free(world->client);
    http_peer_deinit(&world->peer);
    dns_resolver_free(world->resolver);
    address_policy_free(world->policy);
    tls_context_unref(world->tls);
    loop_free(world->loop);
}

static enum op_result step_call(struct op *op)
{
    struct caller *caller = CONTAINER_OF(op, struct caller, op);
    if (caller->deadline_in_ms) /* the clock of a turn does not move, so the time has not passed
                                 * yet */
        caller->call.deadline_ns = loop_now_ns(op->loop) + caller->deadline_in_ms * 1000000ull;
    caller->start_code = http_call_start(caller->client, &caller->call, op);
    return caller->start_code == OK ? OP_WAIT : OP_NEXT;
}

static enum op_result step_keep(struct op *op)
{
    struct caller *caller = CONTAINER_OF(op, struct caller, op);
    ASSERT(!http_call_is_active(&caller->call));
    caller->is_done = true;
    op_hold(op, "the test looks");
    return OP_WAIT;
}

static enum op_result step_end(struct op *op)
{
    (void)op;
    return OP_DONE;
}

static const struct op_step steps[] = {
    {"call", step_call, 0},
    {"keep", step_keep, 0},
    {"end", step_end, 0},
};

static void on_cancel(struct op *op)
{
    http_call_cancel(&CONTAINER_OF(op, struct caller, op)->call);
}

static void on_end(struct op *op, enum op_end end)
{
    struct caller *caller = CONTAINER_OF(op, struct caller, op);
    caller->end = end;
    if (end == OP_ENDED_CANCELLED && !caller->is_done) {
        caller->is_done = true;
        op_hold(op, "the test looks");
    }
}

static void on_free(struct op *op)
{
    CONTAINER_OF(op, struct caller, op)->client = NULL;
}

static const struct op_class caller_class = {.name = "test caller",
                                             .steps = steps,
                                             .step_count = ARRAY_LEN(steps),
                                             .on_cancel = on_cancel,
                                             .on_end = on_end,
                                             .free = on_free};

void caller_init(struct caller *caller, struct caller_world *world, const char *path)
{
    memset(caller, 0, sizeof(*caller));
    caller->client = world->client;
    int len = snprintf(
        caller->url, sizeof(caller->url), "%s://%s:%u%s", world->peer.tls ? "https" : "http",
        world->peer.tls ? "localhost" : "127.0.0.1", http_peer_port(&world->peer), path);
    ASSERT(len > 0 && (size_t)len < sizeof(caller->url));
    caller->call.url = slice_cstr(caller->url);
    caller->call.method = SLICE("GET");
    caller->call.is_idempotent = true;
}

void caller_start(struct caller *caller, struct caller_world *world, size_t arena_bytes_max)
{
    op_start(&caller->op, &caller_class, world->loop, NULL, arena_bytes_max);
}

void caller_wait(struct caller *caller)
{
    WAIT_UNTIL(caller->op.loop, caller->is_done);
}

void caller_deinit(struct caller *caller)
{
    struct loop *loop = caller->op.loop;
    op_release(&caller->op);
    WAIT_UNTIL(loop, caller->client == NULL);
}

void caller_get(struct caller *caller, struct caller_world *world, const char *path)
{
    caller_init(caller, world, path);
    caller_start(caller, world, (size_t)64 << 20);
    caller_wait(caller);
}
