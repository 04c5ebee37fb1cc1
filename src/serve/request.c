/*
 * The life of a request; see request.h.
 *
 * Memory is counted against the account's share of the budget (base/budget.h) and reserved before
 * it is used. A request that does not fit waits for BUDGET_WAIT_MS; then the answer is 503. A
 * request that already holds memory waits as BUDGET_IN_HAND, because many requests that each have a
 * part and wait for the rest would deadlock.
 */
#include "serve/request.h"

#include "base/mem.h"

enum {
    SMALL_BODY_FACTOR = 8, /* text and values */
    FIRST_CHUNKS_BYTES =
        64 * 1024, /* bytes read first from a body of unknown length; the amount then doubles */
};

OP_OF(request_of, serve_request)

static const struct serve_face *face_of(const struct op *op)
{
    return CONTAINER_OF(op, struct serve_request, op)->serve->face;
}

/* ---- the caller ---- */

static enum op_result step_find_caller(struct op *op)
{
    struct serve_request *request = request_of(op);
    struct http_exchange *exchange = request->exchange;
    ASSERT(!request->is_answered);
    request->found = http_router_match(request->serve->router, exchange->head.method,
                                       exchange->segments, exchange->segment_count,
                                       &request->match);
    return face_of(op)->find_caller(request);
}

static enum op_result step_take_caller(struct op *op)
{
    return face_of(op)->take_caller(request_of(op));
}

/* Without a budget, or memory to count in it, the use stays zeroed, and all its requests are
 * granted. */
static void begin_use(struct serve_request *request)
{
    struct budget_queue *work = request->serve->work;
    if (work && budget_use_begin(&request->use, &work->budget, serve_payer(request)) == OK)
        arena_count_in(&request->op.arena, &request->use);
}

void serve_caller_set(struct serve_request *request, const struct vault_grant *grant)
{
    ASSERT(!request->use.budget);
    request->grant = *grant;
    http_request_account_set(request->exchange, serve_payer(request));
    uuid_format(serve_payer(request), request->account_text);
    request->op.account_id = slice_cstr(request->account_text);
    begin_use(request);
}

/* Checked before the entrance: a request over its rate is refused without waiting in a queue. */
static enum op_result step_take_rate(struct op *op)
{
    struct serve_request *request = request_of(op);
    struct account_rate *rate = request->serve->rate;
    uint64_t now = loop_now_ns(op->loop);
    if (!rate)
        return OP_NEXT;
    if (account_rate_awaits(rate, serve_payer(request), 1, now, &request->rate_wait, op))
        return op_wait_then(op, SERVE_TAKE_RATE);
    uint64_t wait_ms = account_rate_take(rate, serve_payer(request), now);
    if (wait_ms == 0)
        return OP_NEXT;
    serve_retry_after(request, (int64_t)wait_ms);
    return face_of(op)->refuse(request, SERVE_PAST_RATE);
}

static bool has_no_policy(const struct serve_request *request)
{
    return store_key_policy_is_none(&request->grant.policy);
}

enum op_result serve_no_user(struct serve_request *request)
{
    return op_jump(&request->op, has_no_policy(request) ? SERVE_ENTER : SERVE_FIND_POLICY);
}

static enum op_result step_find_user(struct op *op)
{
    const struct serve_face *face = face_of(op);
    return face->find_user ? face->find_user(request_of(op)) : serve_no_user(request_of(op));
}

static enum op_result step_take_user(struct op *op)
{
    enum op_result result = face_of(op)->take_user(request_of(op));
    return result == OP_NEXT && has_no_policy(request_of(op)) ? op_jump(op, SERVE_ENTER) : result;
}

static enum op_result refuse_for_memory(struct serve_request *request)
{
    serve_retry_after(request, BUDGET_WAIT_MS);
    return request->serve->face->refuse(request, SERVE_MEMORY_BUSY);
}

/* The policy is the account's, also for one of its users. */
static enum op_result step_find_policy(struct op *op)
{
    struct serve_request *request = request_of(op);
    ASSERT(request->serve->policies && !has_no_policy(request));
    slice user = request->grant.is_of_user ? slice_cstr(request->check.user) : request->user;
    request->user = user.ptr ? arena_dup(&op->arena, user) : SLICE_NONE;
    if (user.ptr && !request->user.ptr)
        return refuse_for_memory(request);
    return policy_cache_find(request->serve->policies, &request->policy_find, serve_payer(request),
                             &request->grant.policy, op)
               ? OP_NEXT
               : OP_WAIT;
}

/* A caller whose policy is not known may do nothing. */
static enum op_result step_take_policy(struct op *op)
{
    struct serve_request *request = request_of(op);
    request->policy = request->policy_find.policy;
    if (request->policy_find.status == OK)
        return OP_NEXT;
    serve_retry_after(request, 0);
    return face_of(op)->refuse(request, SERVE_NO_POLICY);
}

static enum op_result step_enter(struct op *op)
{
    return op_enter(op, &request_of(op)->entry, face_of(op)->queue(request_of(op)));
}

struct uuid serve_payer(const struct serve_request *request)
{
    return vault_grant_payer(&request->grant);
}

bool serve_may(const struct serve_request *request, uint32_t scope)
{
    return scope == 0 || (scope & request->grant.scopes) != 0;
}

slice serve_actor(struct serve_request *request)
{
    char text[UUID_TEXT_LEN + 1], room[16 + UUID_TEXT_LEN];
    bool is_operator = (request->grant.scopes & SCOPE_OPERATOR) != 0;
    ASSERT(!uuid_is_nil(request->grant.key_id));
    uuid_format(request->grant.key_id, text);
    return arena_dup(
        &request->op.arena,
        SLICE_JOIN(room, is_operator ? SLICE("operator:") : SLICE("key:"), slice_cstr(text)));
}

slice serve_client_address(struct serve_request *request)
{
    /* The check of the caller may have the address already. */
    slice known = request->check.address;
    return known.ptr ? known
                     : http_client_address(request->exchange, request->serve->trusted_proxies);
}

struct audit_by serve_by(struct serve_request *request)
{
    return (struct audit_by){
        .actor = serve_actor(request),
        .request_id = request->exchange->request_id,
        .address = serve_client_address(request),
        .means = request->serve->face->means,
        .parent_id = request->grant.parent_id,
    };
}

/* ---- route ---- */

static enum op_result step_route(struct op *op)
{
    struct serve_request *request = request_of(op);
    const struct serve_face *face = face_of(op);
    enum op_result result = face->admit(request);
    if (result != OP_NEXT)
        return result;
    if (request->found == HTTP_MATCH_NO_PATH)
        return face->refuse(request, SERVE_NO_PATH);
    if (request->found == HTTP_MATCH_NO_METHOD) {
        serve_header(request, "Allow", slice_cstr(request->match.allow));
        return face->refuse(request, SERVE_NO_METHOD);
    }
    request->exchange->route = request->match.route->pattern;
    return face->check_access(request);
}

/* ---- the body, and its memory ---- */

/* No more of the body is read until this is called again. A chunked body has no length: it is
 * read up to body_pause_at, which doubles, so that a large body waits O(log n) times. */
static size_t bytes_wanted(struct serve_request *request, enum budget_kind *kind)
{
    struct http_exchange *exchange = request->exchange;
    const struct http_head *head = &exchange->head;
    *kind = BUDGET_NEW;
    if (exchange->body_pause_at > 0) { /* half of it has arrived */
        size_t more = (size_t)exchange->body_pause_at;
        exchange->body_pause_at *= 2;
        *kind = BUDGET_IN_HAND;
        return more;
    }
    if (head->framing == HTTP_FRAMING_CHUNKED) {
        exchange->body_pause_at = FIRST_CHUNKS_BYTES;
        return BUDGET_STEP_BYTES + FIRST_CHUNKS_BYTES;
    }
    bool has_body = head->framing == HTTP_FRAMING_LENGTH;
    /* a body that is too long is answered with 413 */
    if (!has_body || head->content_length > exchange->body_bytes_max)
        return BUDGET_STEP_BYTES;
    size_t length = (size_t)head->content_length;
    return BUDGET_STEP_BYTES +
           (length <= SERVE_SMALL_BODY_BYTES ? length * SMALL_BODY_FACTOR : length);
}

static enum op_result step_ask_memory(struct op *op)
{
    struct serve_request *request = request_of(op);
    enum budget_kind kind;
    size_t bytes = bytes_wanted(request, &kind);
    if (!request->use.budget && face_of(op)->counts_strangers)
        begin_use(request);
    bool is_taken =
        budget_wait_op(&request->memory, op, &request->use, bytes, kind, BUDGET_WAIT_MS);
    return is_taken ? OP_NEXT : OP_WAIT;
}

static void stop_waiting(struct serve_request *request)
{
    /* Released exactly once: by the body, by its pause, or by a cancel, whichever is first. */
    if (request->is_waiting_for_body)
        op_release(&request->op);
    request->is_waiting_for_body = false;
}

void serve_on_request(struct http_exchange *exchange, void *ctx)
{
    struct serve_request *request = exchange->user;
    (void)ctx;
    if (!request) /* the op has ended */
        return;
    request->is_body_here = true;
    stop_waiting(request);
}

void serve_on_body_paused(struct http_exchange *exchange, void *ctx)
{
    (void)ctx;
    if (exchange->user)
        stop_waiting(exchange->user);
}

static enum op_result step_take_body(struct op *op)
{
    struct serve_request *request = request_of(op);
    if (!request->memory.is_taken)
        return refuse_for_memory(request);
    request->exchange->use = request->use.budget ? &request->use : NULL;
    if (request->is_body_here)
        return OP_NEXT;
    request->is_waiting_for_body = true;
    op_hold(op, "request body");
    http_body_accept(request->exchange);
    return OP_WAIT;
}

static enum op_result step_read_body(struct op *op)
{
    struct serve_request *request = request_of(op);
    if (!request->is_body_here) /* more of the body follows than there was memory for */
        return op_jump(op, SERVE_ASK_MEMORY);
    if (!request->memory.is_taken) /* parsing needs it */
        return refuse_for_memory(request);
    return face_of(op)->read_body(request);
}

static enum op_result step_check_body(struct op *op)
{
    ASSERT(request_of(op)->is_body_here);
    return face_of(op)->check_body(request_of(op));
}

/* ---- the endpoint ---- */

/* An endpoint that ends without an answer but still holds the op, such as for another scan of a
 * list, continues in `resume`. */
static bool is_more(const struct serve_request *request, enum op_result result)
{
    bool is_late = result == OP_DONE && !request->is_answered && request->op.holds > 0;
    return result == OP_WAIT || is_late;
}

static enum op_result step_begin(struct op *op)
{
    struct serve_request *request = request_of(op);
    ASSERT(!request->is_answered);
    enum op_result result = face_of(op)->begin(request);
    return is_more(request, result) ? OP_WAIT : result;
}

static enum op_result step_finish(struct op *op)
{
    struct serve_request *request = request_of(op);
    if (request->is_answered)
        return OP_DONE;
    enum op_result result = face_of(op)->resume(request);
    return is_more(request, result) ? op_wait_then(op, SERVE_FINISH) : result;
}

/* ---- the reply's headers ---- */

void serve_header(struct serve_request *request, const char *name, slice value)
{
    ASSERT(request->header_count < SERVE_HEADERS_MAX);
    request->headers[request->header_count++] = (struct http_header){slice_cstr(name), value};
}

void serve_retry_after(struct serve_request *request, int64_t ms)
{
    ASSERT(ms >= 0);
    int64_t seconds = ms <= 1000 ? 1 : (ms + 999) / 1000;
    slice text = arena_printf(&request->op.arena, "%lld", (long long)seconds);
    if (text.ptr)
        serve_header(request, "Retry-After", text);
}

/* ---- the op ---- */

static void on_cancel(struct op *op)
{
    struct serve_request *request = request_of(op);
    if (face_of(op)->on_cancel)
        face_of(op)->on_cancel(request);
    stop_waiting(request);
    budget_wait_stop(&request->memory);
}

/* An op that ends without an answer was cancelled or has a bug; its client gets a reset or a
 * 500, but never waits forever. */
static void on_end(struct op *op, enum op_end end)
{
    struct serve_request *request = request_of(op);
    struct http_exchange *exchange = request->exchange;
    if (face_of(op)->on_end)
        face_of(op)->on_end(request, end);
    http_body_release(exchange); /* the body is charged to the request's use, which ends here */
    /* Detached before the reply: its callbacks must not find a request that has ended. */
    exchange->user = NULL;
    exchange->on_gone = NULL;
    request->serve->active--;
    if (!request->is_answered && end == OP_ENDED_CANCELLED)
        http_reply_drop(exchange);
    else if (!request->is_answered)
        http_reply_error(exchange, 500, SLICE("Internal error"));
}

/* The ops below this one have ended, too: until then they may use texts of the request's head. */
static void free_request(struct op *op)
{
    http_exchange_unref(request_of(op)->exchange);
    budget_use_end(&request_of(op)->use);
    policy_unref(request_of(op)->policy_find.policy);
    mem_free(request_of(op)); /* frees the face's struct, which begins with the request */
}

static const struct op_step steps[] = {
    [SERVE_FIND_CALLER] = {"find_caller", step_find_caller, OP_TO(SERVE_ENTER)},
    [SERVE_TAKE_CALLER] = {"take_caller", step_take_caller, OP_TO(SERVE_ENTER)},
    [SERVE_TAKE_RATE] = {"take_rate", step_take_rate, OP_TO(SERVE_TAKE_RATE)},
    [SERVE_FIND_USER] = {"find_user", step_find_user,
                         OP_TO(SERVE_FIND_POLICY) | OP_TO(SERVE_ENTER)},
    [SERVE_TAKE_USER] = {"take_user", step_take_user, OP_TO(SERVE_ENTER)},
    [SERVE_FIND_POLICY] = {"find_policy", step_find_policy, 0},
    [SERVE_TAKE_POLICY] = {"take_policy", step_take_policy, 0},
    [SERVE_ENTER] = {"enter", step_enter, 0},
    [SERVE_ROUTE] = {"route", step_route, 0},
    [SERVE_ASK_MEMORY] = {"ask_memory", step_ask_memory, 0},
    [SERVE_TAKE_BODY] = {"take_body", step_take_body, 0},
    [SERVE_READ_BODY] = {"read_body", step_read_body, OP_TO(SERVE_ASK_MEMORY)},
    [SERVE_CHECK_BODY] = {"check_body", step_check_body,
                          OP_TO(SERVE_READ_BODY) | OP_TO(SERVE_BEGIN)},
    [SERVE_BEGIN] = {"begin", step_begin, OP_TO(SERVE_BEGIN)},
    [SERVE_FINISH] = {"finish", step_finish, OP_TO(SERVE_BEGIN) | OP_TO(SERVE_FINISH)},
};

static const struct op_class request_class = {
    .name = "request",
    OP_STEPS(steps),
    .is_attended = true,
    .on_cancel = on_cancel,
    .on_end = on_end,
    .free = free_request,
};

static void on_gone(struct http_exchange *exchange)
{
    struct serve_request *request = exchange->user;
    if (!request->serve->face->on_gone(request))
        op_cancel(&request->op);
}

enum http_body_wanted serve_on_head(struct http_exchange *exchange, void *ctx)
{
    struct serve *serve = ctx;
    const struct serve_face *face = serve->face;
    struct serve_request *request = mem_zalloc(face->request_bytes);
    if (!request) {
        http_reply_error(exchange, 503, SLICE("Out of memory"));
        return HTTP_BODY_READ;
    }
    request->serve = serve;
    request->exchange = exchange;
    if (face->open)
        face->open(request);
    serve->active++;
    exchange->user = request;
    exchange->on_gone = on_gone;
    http_exchange_ref(exchange); /* the client may close the connection while the caller is
                                  * checked */
    op_start(&request->op, &request_class, exchange->loop, NULL, face->arena_bytes_max);
    request->op.request_id = exchange->request_id;
    return HTTP_BODY_WAIT;
}
