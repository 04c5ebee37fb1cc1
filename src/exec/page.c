/*
 * Pages: a list that is returned in parts (the manifest's response.pagination). Every success
 * contains the input for the next page. For a caller that wants several at once (max_pages), they
 * are read here and joined: arrays are concatenated, other members are those of the last page.
 *
 * Reading ends with the last page, at max_pages or PAGES_BYTES_MAX, at a page that names itself as
 * the next page, or at a page that fails. The pages read so far are then the result, with the
 * reason for the end.
 */
#include "exec/internal.h"

enum { PAGES_BYTES_MAX = 8 * 1024 * 1024, PAGES_ON_LOOP_BYTES_MAX = 64 * 1024 };

static bool is_paged(const struct exec *exec)
{
    return exec->action->pages.count > 0 && exec->action->level == LEVEL_READ;
}

/* The number of pages that the caller, the manifest and the server all allow. */
static unsigned pages_max(const struct exec *exec)
{
    unsigned max = exec->action->pages.max > 0 ? exec->action->pages.max : CATALOG_PAGES_DEFAULT;
    return exec->in.pages_max < max ? exec->in.pages_max : max;
}

const struct json *exec_input(const struct exec *exec)
{
    return exec->pages.input ? exec->pages.input : exec->in.input;
}

/* ---- joining ---- */

static void append_items(struct arena *arena, struct json *all, const struct json *more)
{
    for (uint32_t i = 0; i < more->count; i++)
        json_array_push(arena, all, more->as.items[i]);
}

/* all: an array, or an object whose arrays grow; a member that is not an array, such as a total or
 * a cursor, is taken from the newest page. Returns false if they cannot be joined, or if out of
 * memory. */
static bool append_page(struct arena *arena, struct json *all, const struct json *page)
{
    if (all->type != page->type || (all->type != JSON_ARRAY && all->type != JSON_OBJECT))
        return false;
    if (all->type == JSON_ARRAY)
        append_items(arena, all, page);
    for (uint32_t i = 0; all->type == JSON_OBJECT && i < page->count; i++) {
        slice key = json_str(&page->as.members[i].key);
        struct json value = page->as.members[i].value;
        const struct json *former = json_get(all, key);
        if (json_is(former, JSON_ARRAY) && value.type == JSON_ARRAY) {
            struct json joined = *former;
            append_items(arena, &joined, &value);
            value = joined;
        }
        json_object_put(arena, all, key, value);
    }
    return !arena->is_exhausted;
}

/* ---- one page ---- */

static void stop_pages(struct exec *exec, slice why)
{
    exec->pages.is_ended = true;
    exec->pages.stopped = why;
}

static void take_success(struct exec *exec)
{
    struct exec_pages *pages = &exec->pages;
    struct arena *arena = &exec->op.arena;
    const struct json *page = NULL;
    /* A page is counted before it is joined, because a page that cannot be joined was read, too,
     * and its bytes are in memory. */
    pages->read++;
    pages->bytes += exec->out.output_json.len;
    pages->is_ended = exec->out.page_next.type == JSON_NULL || pages->read >= pages_max(exec);
    if (pages->read == 1 && pages->is_ended)
        return; /* the usual case: nothing to join */
    page = json_parse(arena, exec->out.output_json, &json_limits_provider, NULL);
    if (pages->read == 1 && page)
        pages->all = *page;
    else if (!page || !append_page(arena, &pages->all, page))
        stop_pages(exec, SLICE("The next page could not be added to the pages before it."));
    if (!pages->is_ended && pages->bytes >= PAGES_BYTES_MAX)
        stop_pages(exec, SLICE("The pages read so far have reached the largest size allowed."));
}

/* The pages read so far are the result of the run. `kept` is the outcome after the previous
 * page, so that the failure's reason and codes belong to the page that failed; its attempts were
 * made and are counted. */
static void take_failure(struct exec *exec)
{
    ASSERT(exec->pages.read > 0); /* a first page that fails is the outcome */
    slice why = exec->out.message;
    unsigned attempts = exec->out.attempts;
    exec->out = exec->pages.kept;
    exec->out.attempts = attempts;
    stop_pages(exec, why);
}

/* Rendered once, after the last page: texts of the pages in between would be discarded. */
static void write_all(struct exec *exec)
{
    struct exec_outcome *out = &exec->out;
    slice output = json_text_of(&exec->pages.all, &exec->op.arena, exec->op.arena.bytes_max);
    if (!output.ptr) { /* the last page alone must not look like all of them */
        exec_end_with(exec, EXEC_REPLY_TOO_LARGE,
                      SLICE("The pages that were read do not fit into memory together."),
                      SLICE("Read fewer pages at once: set a smaller max_pages."));
        return;
    }
    out->output_json = output;
    call_reply_display(exec->action, exec->in.input, &exec->pages.all, &exec->op.arena, out);
}

/* May run on a pool thread: it touches the run's arena and outcome, and logs nothing. */
static void take_page(struct op *op)
{
    struct exec *exec = exec_of(op);
    struct exec_pages *pages = &exec->pages;
    if (exec->out.reason == EXEC_SUCCEEDED)
        take_success(exec);
    else
        take_failure(exec);
    if (pages->is_ended && pages->read > 1)
        write_all(exec);
    exec->out.pages_read = pages->read;
    exec->out.pages_stopped = pages->stopped;
}

/* Logs first, because take_page may run on a pool thread. The failure of a first page is the
 * outcome of the run; large pages are parsed off the loop (PAGES_ON_LOOP_BYTES_MAX). Returns
 * OP_NEXT if the page was taken. */
static enum op_result take_reply(struct exec *exec)
{
    ASSERT(!exec->pages.is_ended);
    bool is_failure = exec->out.reason != EXEC_SUCCEEDED;
    exec->pages.is_taken = true;
    if (exec->out.manifest_fault.len > 0)
        op_log(&exec->op, LOG_WARN, "an expression of a manifest failed over a reply",
               LOG_STR("integration_id", exec->out.integration_id),
               LOG_STR("action_id", exec->out.action_id),
               LOG_STR("cause", exec->out.manifest_fault));
    exec->out.attempts += exec->pages.attempts;
    if (!is_paged(exec) || (is_failure && exec->pages.read == 0)) {
        exec->pages.is_ended = true;
        return OP_NEXT;
    }
    bool is_large = pages_max(exec) > 1 &&
                    exec->pages.bytes + exec->out.output_json.len > PAGES_ON_LOOP_BYTES_MAX;
    return op_run_job(&exec->op, &exec->job, is_large, take_page, "a page to be added");
}

/* ---- the next page ---- */

/* Whether the next page is the one that `former` requested. If a provider repeats a cursor,
 * pages would be read until max_pages. */
static bool is_same_page(const struct exec *exec, const struct json *former)
{
    const struct catalog_pages *pages = &exec->action->pages;
    for (size_t i = 0; i < pages->count; i++) {
        const struct json *former_cursor = json_get(former, pages->items[i].input);
        const struct json *next_cursor = json_get(&exec->out.page_next, pages->items[i].input);
        if ((former_cursor || next_cursor) &&
            !(former_cursor && next_cursor && json_equal(former_cursor, next_cursor)))
            return false;
    }
    return true;
}

/* Returns the caller's input with the cursor of the next page. A cursor from the caller is removed
 * even if the reply has none: some apps accept an offset or a token, never both. */
static struct json input_of_next(struct exec *exec)
{
    const struct catalog_pages *pages = &exec->action->pages;
    const struct json *given = exec->in.input, *next = &exec->out.page_next;
    struct arena *arena = &exec->op.arena;
    struct json input = json_object();
    for (uint32_t i = 0; i < given->count; i++) {
        slice key = json_str(&given->as.members[i].key);
        bool is_cursor = false;
        for (size_t j = 0; j < pages->count; j++)
            is_cursor = is_cursor || slice_eq(key, pages->items[j].input);
        if (!is_cursor)
            json_object_set(arena, &input, key, given->as.members[i].value);
    }
    for (uint32_t i = 0; i < next->count; i++)
        json_object_set(arena, &input, json_str(&next->as.members[i].key),
                        next->as.members[i].value);
    return input;
}

/* Builds the request of the next page; returns false if there is none. The run keeps its original
 * input. */
static bool build_next(struct exec *exec)
{
    ASSERT(exec->out.reason == EXEC_SUCCEEDED && exec->out.page_next.type == JSON_OBJECT);
    struct arena *arena = &exec->op.arena;
    struct json *input = ARENA_NEW(arena, struct json);
    if (!input || is_same_page(exec, exec_input(exec)))
        return false;
    *input = input_of_next(exec);
    exec->pages.input = input;
    return exec_build_request(exec) == OP_NEXT && !arena->is_exhausted;
}

/* Each page is another call of the same execution, which limits_repeat counts; the run sleeps only
 * for the wait that limits_repeat returns. Returns OP_NEXT if there is no further page. */
static enum op_result next_page(struct exec *exec)
{
    struct op *op = &exec->op;
    if (exec->pages.is_ended)
        return OP_NEXT;
    if (exec->in.on_page)
        exec->in.on_page(op->parent, exec->pages.read);
    exec->pages.kept = exec->out; /* build_next stops by setting the outcome */
    if (!build_next(exec)) {
        exec->out = exec->pages.kept;
        stop_pages(exec, SLICE("The provider's cursor for the next page does not advance."));
        write_all(exec);
        exec->out.pages_stopped = exec->pages.stopped;
        return OP_NEXT;
    }
    /* EXEC_ATTEMPTS_MAX applies to each page; take_reply sums the attempts of all pages. */
    exec->pages.is_taken = false;
    exec->pages.attempts = exec->out.attempts;
    exec->out.attempts = 0;
    uint64_t wait_ms = limits_repeat(&exec->gate.slot);
    /* If less than twice the wait is left, the run does not wait, and leaves a refusal (429) to the
     * provider. */
    if (wait_ms == 0 || wait_ms * 2 > exec_left_ms(exec))
        return op_jump(op, EXEC_STEP_CALL);
    op_sleep(op, &exec->timer, wait_ms, "its connection's limits");
    return op_wait_then(op, EXEC_STEP_CALL);
}

/* Runs once a request needs no further attempt: continues with the action's next request, the
 * list's next page, or the end. At the end the slot of the limits is returned, so that neither the
 * record nor the answer blocks other runs, and reads of a list's items can take slots. */
enum op_result exec_step_next(struct op *op)
{
    struct exec *exec = exec_of(op);
    enum op_result result = OP_NEXT;
    if (!exec->pages.is_taken && (result = exec_next_request(exec)) != OP_NEXT)
        return result;
    if (!exec->pages.is_taken && take_reply(exec) == OP_WAIT)
        return op_wait_then(op, EXEC_STEP_NEXT);
    if ((result = next_page(exec)) != OP_NEXT)
        return result;
    exec_leave(exec);
    return exec->action->each ? exec_read_each(exec) : OP_NEXT;
}
