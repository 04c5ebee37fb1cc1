/*
 * Makes the plans of steps that pause the flow: until when, and what people are shown during the
 * pause. The result is stored with the pause (flow_doc.waiting_input), because an approval must
 * later show exactly what was evaluated now.
 */
#include "base/clock.h"
#include "catalog/recipient.h"
#include "catalog/target.h"
#include "flow/change.h"
#include "flow/internal.h"
#include "flow/template_read.h"

enum { SECOND_US = 1000000 };

/* Converts seconds to microseconds. The comparison is written so that NaN is refused. */
static bool read_duration_us(struct flow_run *run, const struct json *value, const char *what,
                             int64_t *out_us)
{
    double seconds = json_to_double(value);
    if (!json_is_number(value) || !(seconds >= 0) || seconds > FLOW_SECONDS_MAX) {
        flow_plan_fault(run, what, "it is not a number of seconds up to a year");
        return false;
    }
    *out_us = (int64_t)(seconds * SECOND_US);
    return true;
}

/* If wake_at is 0, only a person ends the pause. Every pause ends at the deadline, so that the flow
 * fails in time. */
static void park_until(struct flow_run *run, int64_t wake_at)
{
    int64_t deadline = run->flow.deadline;
    ASSERT(wake_at >= 0);
    run->plan.kind = FLOW_PLAN_PARK;
    run->plan.wake_at = wake_at;
    if (deadline != 0 && (wake_at == 0 || wake_at > deadline))
        run->plan.wake_at = deadline;
}

/* ---- waits ---- */

static bool wait_end(struct flow_run *run, const struct flow_step_def *step, int64_t *wake_at)
{
    struct json value;
    if (step->wait_for) {
        if (!flow_plan_evaluate(run, NULL, step->wait_for, "for", &value) ||
            !read_duration_us(run, &value, "for", wake_at))
            return false;
        *wake_at += run->plan.started_us;
        return true;
    }
    if (!flow_plan_evaluate(run, NULL, step->wait_until, "until", &value))
        return false;
    if (json_is(&value, JSON_STRING) && time_parse(json_str(&value), wake_at))
        return true;
    flow_plan_fault(run, "until", "it is not an RFC 3339 time");
    return false;
}

/* A time that has passed is not an error: the step completes without a pause. */
void flow_plan_wait(struct flow_run *run, const struct flow_step_def *step)
{
    char text[TIME_TEXT_LEN + 1];
    int64_t wake_at;
    if (!wait_end(run, step, &wake_at))
        return;
    time_format(wake_at, text);
    run->plan.input_json = arena_printf(flow_run_scratch(run), "{\"until\":\"%s\"}", text);
    if (wake_at <= run->plan.started_us)
        run->plan.kind = FLOW_PLAN_PASS;
    else
        park_until(run, wake_at);
}

/* ---- approvals ---- */

enum { DOMAINS_MAX = 64 };

/* What an approval shows in addition to the calls. They are tried in this order until one fits. All
 * but the last say which ids were not read. */
enum aids { AIDS_ALL, AIDS_CHANGES, AIDS_UNREAD, AIDS_NONE };

/* All calls share the budgets; otherwise each of a thousand calls would have a full budget.
 * Changes have a separate budget, since an approval that cannot show them still shows what is
 * sent. */
struct approval {
    struct flow_run *run;
    struct json_writer w;
    struct expr_budget budget, change_budget;
    enum aids aids;
    slice domains[DOMAINS_MAX];
    size_t domain_count;
    struct err err;
};

/* Adds the recipient's domain. The empty domain stands for recipients that have no domain, or for
 * which there is no room. */
static void note_domain(void *user, slice field, const struct recipient *recipient)
{
    struct approval *a = user;
    char room[RECIPIENT_DOMAIN_MAX + 1];
    slice domain = recipient_domain(recipient->domain, room);
    (void)field;
    if (!domain.ptr || a->domain_count >= DOMAINS_MAX - 1)
        domain = SLICE("");
    for (size_t i = 0; i < a->domain_count; i++)
        if (slice_eq(a->domains[i], domain))
            return;
    ASSERT(a->domain_count < DOMAINS_MAX); /* the last position is for the empty domain */
    a->domains[a->domain_count++] = arena_dup(flow_run_scratch(a->run), domain);
}

/* Lists of approvals show the recipients by these domains, without parsing the calls' inputs. */
static void put_domains(struct approval *a)
{
    if (a->domain_count == 0)
        return;
    json_member_open(&a->w, "domains", '[');
    for (size_t i = 0; i < a->domain_count; i++)
        json_put_str(&a->w, a->domains[i]);
    json_close(&a->w, ']');
}

/* Writes what the call would change, from the result of its `before`. */
static void put_changes(struct approval *a, const struct flow_step_def *step,
                        const struct json *root, const struct json *input, size_t index)
{
    const struct flow_before *def = &step->before;
    const struct json *before, *item = JSON_GET(root, "item");
    slice key = a->run->tmpl->steps[def->step].key;
    if (!def->now || a->aids > AIDS_CHANGES)
        return;
    before = json_get(JSON_GET(root, "steps"), key);
    if (def->is_by_item)
        before = json_is(before, JSON_ARRAY) && index < before->count ? &before->as.items[index]
                                                                      : NULL;
    const struct flow_change change = {def, key, before, item, input, index};
    flow_change_write(&a->w, &change, &a->change_budget, flow_run_scratch(a->run));
}

/* Writes where the call writes, and what ids in its input mean or which of them were not read. */
static void put_target(struct approval *a, const struct catalog_action *action,
                       const struct json *input, int64_t connection_id)
{
    const struct flow_show *show = NULL;
    const struct json *shows = NULL;
    if (!action || a->aids == AIDS_NONE)
        return;
    if (a->aids == AIDS_ALL) {
        show = flow_shows_find(a->run, action, input, connection_id);
        shows = show ? show->texts : NULL;
        struct json target = target_of(action, input, shows, flow_run_scratch(a->run));
        if (target.count > 0)
            json_member(&a->w, "target", &target);
    }
    if (shows)
        json_member(&a->w, "shows", shows);
    if (show && show->versions)
        json_member(&a->w, "versions", show->versions);
    struct json unread = target_unread(action, input, shows, flow_run_scratch(a->run));
    if (unread.count > 0)
        json_member(&a->w, "unread", &unread);
}

/* Always returns false, so that a caller can return the result. */
static bool refuse_expression(struct approval *a)
{
    flow_plan_log(a->run, "the approval", &a->err);
    (void)err_set(&a->err, a->err.code, "%s", a->budget.words);
    return false;
}

/* Writes one call that this approval confirms, with exactly the input that will be sent. The
 * lint of templates guarantees that all its values are known by now. */
static bool put_call(struct approval *a, const struct flow_step_def *step, const struct json *item,
                     size_t index)
{
    struct arena *arena = flow_run_scratch(a->run);
    const struct json *root = flow_plan_root(a->run, step, arena, item, index);
    struct catalog **catalog = a->run->service->config.catalog;
    const struct catalog_action *action = catalog ? catalog_find_tool(*catalog, step->tool) : NULL;
    struct json input = json_object(), connection = json_null;
    if (!root)
        return false;
    if (step->input && expr_template_eval(step->input, root, EXPR_DROP_NULL_MEMBERS, &a->budget,
                                          arena, &input, &a->err) != OK)
        return refuse_expression(a);
    if (step->connection && expr_template_eval(step->connection, root, 0, &a->budget, arena,
                                               &connection, &a->err) != OK)
        return refuse_expression(a);
    json_open(&a->w, '{');
    json_member_str(&a->w, "stepKey", step->key);
    json_member_str(&a->w, "tool", step->tool);
    if (connection.type != JSON_NULL)
        json_member(&a->w, "connection", &connection);
    if (step->is_when_late)
        json_member_bool(&a->w, "conditional", true);
    put_target(a, action, &input, flow_connection_id(&connection));
    json_member(&a->w, "input", &input);
    put_changes(a, step, root, &input, index);
    json_close(&a->w, '}');
    if (action)
        recipient_each(action, &input, arena, note_domain, a);
    return buf_is_ok(a->w.out);
}

/* Writes all calls of a step, or none if its condition is already false. */
static bool put_approval_step(struct approval *a, const struct flow_step_def *step)
{
    struct arena *arena = flow_run_scratch(a->run);
    struct json value;
    const struct json *root = flow_plan_root(a->run, step, arena, NULL, 0);
    if (!root)
        return false;
    if (step->when && !step->is_when_late) {
        if (expr_eval(step->when, root, root, &a->budget, arena, &value, &a->err) != OK)
            return refuse_expression(a);
        if (!expr_is_true(&value))
            return true;
    }
    if (!step->for_each)
        return put_call(a, step, NULL, 0);
    if (expr_eval(step->for_each, root, root, &a->budget, arena, &value, &a->err) != OK)
        return refuse_expression(a);
    if (value.type != JSON_ARRAY || value.count > FLOW_ITEMS_MAX) {
        (void)err_set(&a->err, ERR_INVALID,
                      "its for_each does not give an array of at most 1,000 items");
        return false;
    }
    for (uint32_t i = 0; i < value.count; i++)
        if (!put_call(a, step, &value.as.items[i], i))
            return false;
    return true;
}

static bool put_items(struct approval *a)
{
    const struct flow_run *run = a->run;
    json_member_open(&a->w, "items", '[');
    for (size_t i = run->plan.step + 1; i < run->tmpl->step_count; i++) {
        const struct flow_step_def *step = &run->tmpl->steps[i];
        if (step->confirm != FLOW_CONFIRM_APPROVAL || step->confirm_step != run->plan.step)
            continue;
        if (!put_approval_step(a, step)) {
            (void)err_prefix(&a->err, "step \"%.*s\"", SLICE_ARG(step->key));
            return false;
        }
    }
    json_close(&a->w, ']');
    return true;
}

/* Writes {title, summary, items, domains}. Returns false with *err set if that fails. */
static bool write_asked(struct flow_run *run, const struct json *title, const struct json *summary,
                        enum aids aids, struct err *err)
{
    struct buf text;
    struct approval a = {.run = run, .aids = aids};
    flow_shows_begin(run);
    (void)err_set(&a.err, ERR_LIMIT, "it is too large"); /* any other failure replaces this error */
    buf_init(&text, FLOW_OUTPUT_BYTES_MAX);
    json_begin(&a.w, &text);
    expr_budget_init(&a.budget);
    expr_budget_init(&a.change_budget);
    json_open(&a.w, '{');
    json_member(&a.w, "title", title);
    json_member(&a.w, "summary", summary);
    bool is_ok = put_items(&a);
    if (is_ok)
        put_domains(&a);
    json_close(&a.w, '}');
    is_ok = is_ok && buf_is_ok(&text);
    if (is_ok)
        run->plan.input_json = arena_dup(flow_run_scratch(run), buf_slice(&text));
    buf_deinit(&text);
    *err = a.err;
    return is_ok;
}

/* If the approval cannot be shown completely, the step fails, because people may approve only
 * what was shown. Changes and names are only for convenience, and are omitted if there is no room
 * for them. Once names were read, the input is already there without them. */
static void write_input(struct flow_run *run, const struct json *title, const struct json *summary)
{
    struct err err;
    enum aids least = run->plan.shows.is_read ? AIDS_ALL : AIDS_NONE;
    for (enum aids aids = AIDS_ALL; aids <= least; aids++) {
        if (write_asked(run, title, summary, aids, &err))
            return;
        if (err.code != ERR_LIMIT)
            break;
    }
    flow_plan_fault(run, "the approval", err.text);
}

/* park_until is called first, because a fault in write_input replaces the kind that it sets. */
void flow_plan_approval(struct flow_run *run, const struct flow_step_def *step)
{
    struct json title, summary = json_string(SLICE("")), expires;
    int64_t expires_us = 0;
    if (!flow_plan_evaluate(run, NULL, step->title, "title", &title) ||
        (step->summary && !flow_plan_evaluate(run, NULL, step->summary, "summary", &summary)))
        return;
    if (step->expires_in &&
        (!flow_plan_evaluate(run, NULL, step->expires_in, "expires_in", &expires) ||
         !read_duration_us(run, &expires, "expires_in", &expires_us)))
        return;
    park_until(run, step->expires_in ? run->plan.started_us + expires_us : 0);
    write_input(run, &title, &summary);
}
