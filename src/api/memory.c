/*
 * The memory of a request, counted against its account's share of the budget (base/budget.h) and
 * taken before it is used: for its body before a byte of it is read, for the parsed body once its
 * text is here. A request that does not fit waits for BUDGET_WAIT_MS, then the answer is 503.
 *
 * A request that holds memory already waits as BUDGET_IN_HAND, because many that each hold a part
 * and wait for the rest would wait for one another.
 */
#include "api/request.h"

enum {
    SMALL_BODY_BYTES = 4 * 1024,    /* its parse is taken with it, so it waits once at most */
    SMALL_BODY_FACTOR = 8,          /* text and values */
    FIRST_CHUNKS_BYTES = 64 * 1024, /* of a body whose length is not known; then as much again */
};

/* Once the account is known. Without a budget, or memory to count in it, the use stays zeroed, and
 * whatever is taken of it is granted. */
void api_memory_begin(struct api_request *request)
{
    ASSERT(!request->use.budget);
    struct budget_queue *work = request->api->config.work;
    if (work && budget_use_begin(&request->use, &work->budget, request->grant.account_id) == OK)
        arena_count_in(&request->op.arena, &request->use);
}

/* No more of the body is read before this is called again. A chunked body has no length: it is read
 * up to body_pause_at, which doubles, so that a large one waits O(log n) times. */
static size_t bytes_wanted(struct api_request *request, enum budget_kind *kind)
{
    struct http_exchange *exchange = request->exchange;
    const struct http_head *head = &exchange->head;
    *kind = BUDGET_NEW;
    if (exchange->body_pause_at > 0) { /* half of it is here */
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
    if (!has_body || head->content_length > exchange->body_bytes_max) /* the latter is 413 */
        return BUDGET_STEP_BYTES;
    size_t length = (size_t)head->content_length;
    return BUDGET_STEP_BYTES + (length <= SMALL_BODY_BYTES ? length * SMALL_BODY_FACTOR : length);
}

enum op_result api_step_ask_memory(struct op *op)
{
    struct api_request *request = CONTAINER_OF(op, struct api_request, op);
    enum budget_kind kind;
    size_t bytes = bytes_wanted(request, &kind);
    bool is_taken =
        budget_wait_op(&request->memory, op, &request->use, bytes, kind, BUDGET_WAIT_MS);
    return is_taken ? OP_NEXT : OP_WAIT;
}

enum op_result api_memory_refuse(struct api_request *request)
{
    api_reply_retry_after(request, BUDGET_WAIT_MS);
    return api_reply_error(request, 503,
                           "Requests under way take all the memory that is there for this "
                           "account, try again");
}

enum op_result api_step_take_body(struct op *op)
{
    struct api_request *request = CONTAINER_OF(op, struct api_request, op);
    ASSERT(request->endpoint); /* how large a body may be depends on it */
    if (!request->memory.is_taken)
        return api_memory_refuse(request);
    request->exchange->use = request->use.budget ? &request->use : NULL;
    return http_frame_wait_for_body(&request->frame);
}

bool api_memory_take_parse(struct api_request *request)
{
    slice body = request->exchange->body;
    if (!request->use.budget || body.len <= SMALL_BODY_BYTES || request->parse_bytes > 0)
        return true;
    size_t bytes = json_parse_bytes(body); /* one pass: only for large bodies */
    if (budget_use_take(&request->use, bytes))
        return true;
    request->parse_bytes = bytes;
    return false;
}

enum op_result api_memory_wait_for_parse(struct api_request *request)
{
    ASSERT(request->parse_bytes > 0);
    bool is_taken = budget_wait_op(&request->memory, &request->op, &request->use,
                                   request->parse_bytes, BUDGET_IN_HAND, BUDGET_WAIT_MS);
    return is_taken ? OP_NEXT : OP_WAIT;
}
