/*
 * POST /api/executions/batch: up to 50 executions at once, each as POST /api/executions would run
 * it, with its own gate, key, deadline and record. The reply is
 *
 *   {"results": [{"status": 200, "summary": {...}}, {"status": 400, "error": "..."}, ...]}
 *
 * in the order of the request: `status` is the HTTP status that the item would have had alone,
 * `summary` its summary (for a dry run: the request), `error` the sentence of a guard error.
 * `retry_after` (seconds) and `idempotent_replayed` replace the headers of the single endpoint. The
 * batch itself is answered with 200 whatever happens to its items: a caller checks each item.
 *
 * An output is cut to BATCH_OUTPUT_BYTES if neither its item nor the operator sets a limit.
 * Summaries up to API_BATCH_SUMMARIES_BYTES_MAX in total are returned; beyond that an answer has
 * only the id and `truncated`, since the summary is stored and can be fetched.
 */
#include "api/batch.h"
#include "api/envelope.h"

enum {
    BATCH_OUTPUT_BYTES = 1024 * 1024,
    BATCH_REPLY_BYTES_MAX = API_BATCH_SUMMARIES_BYTES_MAX + 1024 * 1024,
    BATCH_ITEM_BYTES = 256, /* approximate bytes of an item without its summary */
};

/* ---- the items ---- */

const struct json *api_batch_list(struct api_request *request, const char *member)
{
    const struct json *list = json_get(request->body, slice_cstr(member));
    if (!json_is(list, JSON_ARRAY) || list->count == 0) {
        (void)api_reply_error(request, 400, "%s must be an array of 1 to %d %s", member,
                              API_BATCH_ITEMS_MAX, member);
        return NULL;
    }
    if (list->count > API_BATCH_ITEMS_MAX) {
        (void)api_reply_error(request, 400, "%s has %u items. A batch takes at most %d.", member,
                              list->count, API_BATCH_ITEMS_MAX);
        return NULL;
    }
    return list;
}

bool api_batch_awaits_rate(struct api_request *request, size_t count)
{
    struct account_rate *rate = request->api->serve.rate;
    return rate && count > 1 &&
           account_rate_awaits(rate, serve_payer(&request->serve), count - 1,
                               loop_now_ns(request->serve.op.loop), &request->serve.rate_wait,
                               &request->serve.op);
}

/* If the account's rate is limited, each item counts as a request; the first was counted with
 * the batch itself, before its body was read. */
static void take_rate(struct api_request *request, struct api_batch_item *item, bool is_first)
{
    struct account_rate *rate = request->api->serve.rate;
    if (is_first || !rate)
        return;
    uint64_t wait_ms =
        account_rate_take(rate, serve_payer(&request->serve), loop_now_ns(request->serve.op.loop));
    if (wait_ms == 0)
        return;
    item->problem = SLICE("Too many requests");
    item->status = 429;
    item->retry_after_s = (int64_t)(wait_ms + 999) / 1000;
}

bool api_batch_init(struct api_request *request, struct api_batch *batch, size_t count,
                    size_t reply_bytes_max)
{
    struct api_batch_item *items =
        ARENA_ARRAY(&request->serve.op.arena, struct api_batch_item, count);
    ASSERT(!request->state && count <= API_BATCH_ITEMS_MAX);
    if (!items)
        return false;
    *batch = (struct api_batch){
        .items = items,
        .count = count,
        .replay_room = API_BATCH_SUMMARIES_BYTES_MAX,
        .trace = api_trace_batch(request),
    };
    for (size_t i = 0; i < count; i++)
        take_rate(request, &items[i], i == 0);
    request->state = batch;
    request->serve.op.arena.bytes_max += reply_bytes_max; /* the reply is held with the body */
    return true;
}

void api_batch_start(struct api_request *request, struct api_batch_item *item,
                     struct exec_request *wanted)
{
    struct api_batch *batch = request->state;
    ASSERT(!item->problem.ptr);
    wanted->replay_room = &batch->replay_room;
    wanted->trace = batch->trace;
    item->exec = exec_start(request->api->config.exec, wanted, &request->serve.op);
    if (item->exec && request->serve.exchange->is_gone) /* during an earlier step of the request */
        exec_client_gone(item->exec);
    if (item->exec)
        return;
    item->problem = SLICE("Out of memory. Try again.");
    item->status = 503;
    item->retry_after_s = 1;
}

/* Each execution decides whether it continues: one that may have reached a provider runs until it
 * is recorded. */
static void gone_batch(struct api_request *request)
{
    struct api_batch *batch = request->state;
    for (size_t i = 0; i < batch->count; i++)
        if (batch->items[i].exec)
            exec_client_gone(batch->items[i].exec);
}

enum op_result api_batch_wait(struct api_request *request, api_step *then)
{
    request->on_gone = gone_batch;
    /* each execution holds the op */
    return request->serve.op.holds > 0 ? api_wait_keyed(request, then) : then(request);
}

/* ---- an item of the endpoint ---- */

struct executions {
    struct api_batch batch; /* must be the first member */
    size_t summaries_len;
};

static void start_item(struct api_request *request, struct api_batch_item *item, size_t index,
                       const struct json *body)
{
    struct exec_request wanted;
    item->status = 400;
    item->problem = body->type == JSON_OBJECT
                        ? api_members_fault(request, &api_execution_members, body)
                        : SLICE("An execution must be a JSON object");
    if (!item->problem.ptr)
        item->problem = api_execution_read(request, &api_execution_members, body, &wanted);
    if (item->problem.ptr)
        return;
    if (wanted.output_bytes_max == 0 && exec_service_output_bytes(request->api->config.exec) == 0)
        wanted.output_bytes_max = BATCH_OUTPUT_BYTES;
    wanted.key_name = "idempotency_key of this execution";
    wanted.input_pointer = arena_printf(&request->serve.op.arena, "/executions/%zu/input", index);
    api_batch_start(request, item, &wanted);
}

/* ---- the reply ---- */

/* If the summary is too large for this reply, writes the data needed to fetch it. */
static void put_truncated(struct json_writer *w, const struct exec_outcome *out)
{
    json_member_open(w, "summary", '{');
    json_member_str(w, "status", slice_cstr(exec_reason_status(out->reason)));
    json_member_uuid(w, "execution_id", out->execution_id);
    json_member_str(w, "integration_id", out->integration_id);
    json_member_str(w, "action_id", out->action_id);
    json_close(w, '}');
    json_member_bool(w, "truncated", true);
}

/* A reason without a status is a guard error, which has no summary; the same applies to an
 * outcome whose summary could not be made. An outcome without an id (blocked, a dry run) is not
 * stored, so it is returned completely, however large. */
static void put_outcome(struct json_writer *w, struct executions *all, const struct exec *exec)
{
    const struct exec_outcome *out = exec_outcome_of(exec);
    slice summary = exec_summary_of(exec);
    bool has_status = exec_reason_status(out->reason) != NULL;
    bool is_guard = !has_status || (summary.len == 0 && !out->is_left_out);
    json_member_i64(w, "status",
                    is_guard && has_status ? 500 : api_verdict_of(out->reason)->http_status);
    if (is_guard) {
        json_key(w, "error");
        json_put_str(w,
                     out->message.len > 0 && !has_status ? out->message : SLICE("Internal error"));
    } else if (out->is_left_out ||
               (all->summaries_len + summary.len > API_BATCH_SUMMARIES_BYTES_MAX &&
                !uuid_is_nil(out->execution_id))) {
        put_truncated(w, out);
    } else {
        all->summaries_len += summary.len;
        json_member_raw(w, "summary", summary);
    }
    int64_t retry_after_s = exec_outcome_retry_after_s(out);
    if (retry_after_s > 0)
        json_member_i64(w, "retry_after", retry_after_s);
    if (out->is_replayed)
        json_member_bool(w, "idempotent_replayed", true);
}

/* Writes the answer of an item that was refused before it was started. */
static void put_problem(struct json_writer *w, const struct api_batch_item *item)
{
    ASSERT(item->problem.ptr && item->status >= 400 && !item->exec);
    json_member_i64(w, "status", item->status);
    json_member_str(w, "error", item->problem);
    if (item->retry_after_s > 0)
        json_member_i64(w, "retry_after", item->retry_after_s);
}

static void put_results(struct json_writer *w, struct executions *all)
{
    json_member_open(w, "results", '[');
    for (size_t i = 0; i < all->batch.count; i++) {
        const struct api_batch_item *item = &all->batch.items[i];
        json_open(w, '{');
        if (item->problem.ptr)
            put_problem(w, item);
        else
            put_outcome(w, all, item->exec);
        json_close(w, '}');
    }
    json_close(w, ']');
}

/* The reply's size is reserved in advance: a growing buffer would copy megabytes several times in
 * one turn of the loop. */
static size_t reply_size(const struct api_batch *batch)
{
    size_t size = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const struct api_batch_item *item = &batch->items[i];
        size += BATCH_ITEM_BYTES + (item->exec ? exec_summary_of(item->exec).len : 0);
    }
    return size;
}

static enum op_result reply_batch(struct api_request *request)
{
    struct executions *all = request->state;
    ASSERT(all);
    api_trace_batch_end(request, all->batch.trace, all->batch.count);
    struct json_writer *w = api_reply_open(request, BATCH_REPLY_BYTES_MAX);
    size_t size = reply_size(&all->batch), room = BATCH_REPLY_BYTES_MAX - w->out->len;
    (void)buf_reserve(w->out, size < room ? size : room);
    put_results(w, all);
    return api_reply_close(request, 200);
}

static enum op_result begin_batch(struct api_request *request)
{
    const struct json *list = api_batch_list(request, "executions");
    if (!list)
        return OP_DONE;
    if (http_request_header(request->serve.exchange, SLICE("Idempotency-Key")).ptr)
        return api_reply_error(request, 400,
                               "The header Idempotency-Key cannot apply to a batch. "
                               "Give each execution an idempotency_key.");
    if (api_batch_awaits_rate(request, list->count))
        return api_wait(request, begin_batch);
    struct executions *all = ARENA_NEW(&request->serve.op.arena, struct executions);
    if (!all || !api_batch_init(request, &all->batch, list->count, BATCH_REPLY_BYTES_MAX))
        return api_reply_no_memory(request);
    for (size_t i = 0; i < list->count; i++)
        if (!all->batch.items[i].problem.ptr)
            start_item(request, &all->batch.items[i], i, &list->as.items[i]);
    return api_batch_wait(request, reply_batch);
}

#define EACH "the member of each execution"

const struct api_endpoint api_executions_batch = {
    .scope = SCOPE_EXECUTE,
    .body = API_BODY_REQUIRED,
    .query = &api_execution_query,
    .members = &(const struct api_names){.own = {"executions"},
                                         .other = {{"dry_run", EACH},
                                                   {"idempotency_key", EACH},
                                                   {"confirm", EACH},
                                                   {"max_output_bytes", EACH},
                                                   {"max_pages", EACH},
                                                   {"select", EACH}}},
    .begin = begin_batch,
};
