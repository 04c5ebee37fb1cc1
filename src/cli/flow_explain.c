/*
 * Explains why a flow does not move; see flow_explain.h. Everything is read from the database. It
 * does not query servers, since the server that owns the flow may be the one that does not answer.
 */
#include "cli/flow_explain.h"

#include "base/clock.h"
#include "cli/catalog_show.h"
#include "cli/output.h"
#include "flow/template.h"
#include "store/flow_explain.h"

enum { SECOND_US = 1000000, LATE_US = 15 * SECOND_US, SENTENCE_BYTES_MAX = 4096 };

struct explanation {
    struct session *session;
    struct flow_explained found;
    struct flow_template *tmpl; /* NULL if this version of the template cannot be read */
    slice step;                 /* the current step's key, or its number */
    struct buf why;             /* the sentences */
};

/* Formats a duration in the largest unit that fits: "3 s", "4 min", "2 h", "5 days". */
static slice span(struct explanation *e, int64_t us)
{
    int64_t seconds = (us < 0 ? -us : us) / SECOND_US;
    /* A unit is used only from 2 upwards: 90 minutes are "90 min", not "1 h". */
    struct arena *arena = &e->session->arena;
    if (seconds < 120)
        return arena_printf(arena, "%lld s", (long long)seconds);
    if (seconds < 2 * 3600)
        return arena_printf(arena, "%lld min", (long long)seconds / 60);
    if (seconds < 2 * 86400)
        return arena_printf(arena, "%lld h", (long long)seconds / 3600);
    return arena_printf(arena, "%lld days", (long long)seconds / 86400);
}

static slice time_text(struct explanation *e, int64_t wall_us)
{
    char text[TIME_TEXT_LEN + 1];
    time_format(wall_us, text);
    return arena_dup(&e->session->arena, slice_of(text, TIME_TEXT_LEN));
}

/* ---- why ---- */

/* Every server adopts flows of dead nodes and wakes waiting flows; the question is whether any
 * server is alive. */
static void why_no_server(struct explanation *e, const char *verb)
{
    if (e->found.nodes_alive == 0)
        buf_printf(&e->why, " No server is running: start one (`sluice serve`).");
    else
        buf_printf(&e->why, " %lld %s alive, %s should %s within seconds.",
                   (long long)e->found.nodes_alive,
                   e->found.nodes_alive == 1 ? "server is" : "servers are",
                   e->found.nodes_alive == 1 ? "it" : "one of them", verb);
}

static void why_running(struct explanation *e)
{
    const struct flow_explained *found = &e->found;
    int64_t age = found->now - found->flow.updated_at;
    /* A node whose lease has expired may not write, even if its process still runs. */
    if (!found->lease_until || found->lease_until < found->now) {
        slice since = found->lease_until ? span(e, found->now - found->lease_until)
                                         : SLICE("a long time");
        buf_printf(&e->why, "The server that ran it has been dead for %.*s.", SLICE_ARG(since));
        if (found->flow.adoptions > 0)
            buf_printf(&e->why, " It was taken over %lld times before without finishing a step.",
                       (long long)found->flow.adoptions);
        why_no_server(e, "take it over");
        return;
    }
    buf_printf(&e->why, "%.*s owns it. Step \"%.*s\" %s %.*s ago (attempt %lld).",
               SLICE_ARG(found->node_name), SLICE_ARG(e->step),
               found->flow.is_begun ? "began" : "was due", SLICE_ARG(span(e, age)),
               (long long)found->flow.attempt);
}

static void why_until(struct explanation *e, const char *what)
{
    const struct flow *flow = &e->found.flow;
    int64_t at = flow_continues_at(flow), left = at - e->found.now;
    if (left >= 0) {
        buf_printf(&e->why, "%s until %.*s, in %.*s.", what, SLICE_ARG(time_text(e, at)),
                   SLICE_ARG(span(e, left)));
        return;
    }
    buf_printf(&e->why, "%s until %.*s, which was %.*s ago.", what, SLICE_ARG(time_text(e, at)),
               SLICE_ARG(span(e, left)));
    /* Servers scan every few seconds: if a flow is overdue for longer, no server has scanned it. */
    if (left < -LATE_US || e->found.nodes_alive == 0)
        why_no_server(e, "wake it");
}

static void why_approval(struct explanation *e)
{
    const struct flow *flow = &e->found.flow;
    char id[UUID_TEXT_LEN + 1];
    uuid_format(flow->id, id);
    buf_printf(&e->why,
               "Step \"%.*s\" has waited %.*s for a person. Approve or reject it with POST "
               "/api/flows/%s/approve or reject, and a key that has the scope approve%s.",
               SLICE_ARG(e->step), SLICE_ARG(span(e, e->found.now - flow->updated_at)), id,
               e->tmpl && e->tmpl->is_held
                   ? ", but not the key that asked for the call, nor one that counts as it"
                   : "");
    if (flow_approval_ends_at(flow))
        buf_printf(&e->why, " It expires at %.*s.",
                   SLICE_ARG(time_text(e, flow_approval_ends_at(flow))));
}

static void why_waiting(struct explanation *e)
{
    if (e->found.flow.waiting_for == FLOW_WAITS_APPROVAL)
        why_approval(e);
    else if (e->found.flow.waiting_for == FLOW_WAITS_RETRY)
        why_until(e, "The provider asked us to wait before the next attempt. The flow waits");
    else
        why_until(e, "It waits");
}

/* Whether it is the call of a hold that is over (flow/held.c). */
static bool is_closed(struct explanation *e)
{
    const struct json *error =
        e->found.last_error.ptr
            ? json_parse(&e->session->arena, e->found.last_error, &json_limits_provider, NULL)
            : NULL;
    return !json_get_bool(error, SLICE("resumable"), true);
}

static void why_status(struct explanation *e)
{
    switch (e->found.flow.status) {
    case FLOW_RUNNING:
        why_running(e);
        return;
    case FLOW_WAITING:
        why_waiting(e);
        return;
    case FLOW_COMPLETED:
        buf_printf(&e->why, "It has completed.");
        return;
    case FLOW_FAILED:
        if (is_closed(e)) {
            buf_printf(&e->why,
                       "Step \"%.*s\" has failed, and a resume does not make its call again.",
                       SLICE_ARG(e->step));
            return;
        }
        buf_printf(&e->why,
                   "Step \"%.*s\" has failed. Once the cause is fixed, POST /api/flows/{id}/resume "
                   "continues from there.",
                   SLICE_ARG(e->step));
        return;
    case FLOW_CANCELLED:
        buf_printf(&e->why, "It was cancelled, which is final.");
        return;
    }
    UNREACHABLE("all are listed");
}

/* ---- output ---- */

static void print_line(struct explanation *e, const char *heading, slice text)
{
    if (text.len == 0)
        return;
    (void)printf("%-10s", heading);
    output_text(stdout, text);
    (void)printf("\n");
    (void)e;
}

static void print_times(struct explanation *e)
{
    const struct flow *flow = &e->found.flow;
    print_line(e, "created", time_text(e, flow->created_at));
    print_line(e, "changed", time_text(e, flow->updated_at));
    if (flow_due_at(flow))
        print_line(e, "next due", time_text(e, flow_due_at(flow)));
    if (flow->deadline)
        print_line(e, "deadline", time_text(e, flow->deadline));
    if (flow->status != FLOW_RUNNING)
        return;
    print_line(e, "owner", e->found.node_name.ptr ? e->found.node_name : SLICE("(gone)"));
    if (e->found.lease_until)
        print_line(e, "lease", time_text(e, e->found.lease_until));
}

static void print_error(struct explanation *e)
{
    struct arena *arena = &e->session->arena;
    const struct json *error = e->found.last_error.ptr ? json_parse(arena, e->found.last_error,
                                                                    &json_limits_provider, NULL)
                                                       : NULL;
    if (!error)
        return;
    slice code = json_get_str(error, SLICE("code")),
          message = json_get_str(error, SLICE("message"));
    print_line(e, "error", arena_printf(arena, "%.*s: %.*s", SLICE_ARG(code), SLICE_ARG(message)));
    print_line(e, "hint", json_get_str(error, SLICE("hint")));
}

static int print(struct explanation *e)
{
    const struct flow *flow = &e->found.flow;
    char id[UUID_TEXT_LEN + 1];
    struct arena *arena = &e->session->arena;
    uuid_format(flow->id, id);
    print_line(e, "flow", slice_of(id, UUID_TEXT_LEN));
    print_line(e, "account", e->found.account_name);
    print_line(e, "template", flow->template_key);
    print_line(e, "status", slice_cstr(flow_status_name(flow->status)));
    print_line(
        e, "step",
        arena_printf(arena, "%.*s, attempt %lld", SLICE_ARG(e->step), (long long)flow->attempt));
    print_times(e);
    print_error(e);
    (void)printf("\n");
    catalog_show_text(e->session, 0, buf_slice(&e->why));
    return OK;
}

static int print_json(struct explanation *e)
{
    const struct flow *flow = &e->found.flow;
    struct json_text json;
    struct json_writer *w = output_json_begin(&json, '{');
    json_member_uuid(w, "flow_id", flow->id);
    json_member_str(w, "account", e->found.account_name);
    json_member_str(w, "template", flow->template_key);
    json_member_str(w, "status", slice_cstr(flow_status_name(flow->status)));
    json_member_str(w, "step", e->step);
    json_member_i64(w, "attempt", flow->attempt);
    json_member_time(w, "created_at", flow->created_at);
    json_member_time(w, "updated_at", flow->updated_at);
    json_member_time(w, "next_due", flow_due_at(flow));
    json_member_time(w, "deadline", flow->deadline);
    json_member_str(w, "owner", e->found.node_name);
    json_member_time(w, "lease_until", e->found.lease_until);
    json_member_raw(w, "last_error", e->found.last_error);
    json_member_str(w, "why", buf_slice(&e->why));
    return output_json_end(&json, '{', &e->session->err);
}

/* Finds the key of the current step in the flow's own version of the template. */
static void find_step(struct explanation *e, struct catalog_report *report)
{
    size_t index = (size_t)e->found.flow.step_index;
    if (e->found.template_body.ptr)
        e->tmpl = flow_template_compile(SLICE("stored"), e->found.template_body, NULL, report);
    if (e->tmpl && index >= e->tmpl->step_count)
        index = e->tmpl->step_count - 1;
    e->step = e->tmpl ? e->tmpl->steps[index].key : arena_printf(&e->session->arena, "%zu", index);
}

int flow_explain(struct session *session, slice id_text, bool as_json)
{
    struct explanation e = {.session = session};
    struct uuid id;
    if (!uuid_parse(id_text, &id))
        return err_set(&session->err, ERR_INVALID, "\"%.*s\" is not a flow id", SLICE_ARG(id_text));
    if (store_flow_explain_sync(session->sync, &session->arena, id, &e.found, &session->err) != OK)
        return (int)session->err.code;
    struct catalog_report *report = catalog_report_new(&session->err);
    if (!report)
        return ERR_NOMEM;
    buf_init(&e.why, SENTENCE_BYTES_MAX);
    find_step(&e, report);
    why_status(&e);
    int result = as_json ? print_json(&e) : print(&e);
    buf_deinit(&e.why);
    flow_template_unref(e.tmpl);
    catalog_report_free(report);
    return result;
}
