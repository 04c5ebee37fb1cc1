/*
 * A change of a policy; see command.h. The document is compiled here, so that each stored text is
 * one that the servers can compile.
 */
#include "policy/command.h"

#include "catalog/catalog.h"
#include "json/json.h"

enum { COMMAND_ARENA_BYTES_MAX = 1024 * 1024, FAULTS_BYTES_MAX = 64 * 1024 };

enum { CHECK, CHANGE, CHANGED };

OP_OF(command_of, policy_command)

/* ---- the document ---- */

slice policy_faults(const struct catalog_report *report, slice root, struct arena *arena)
{
    struct buf text;
    const char *before = "";
    buf_init(&text, FAULTS_BYTES_MAX);
    for (size_t i = 0; i < report->count; i++) {
        const struct catalog_problem *problem = &report->problems[i];
        if (problem->is_warning)
            continue;
        buf_printf(&text, "%s%.*s%.*s: %.*s", before, SLICE_ARG(root), SLICE_ARG(problem->pointer),
                   SLICE_ARG(problem->text));
        before = "; ";
    }
    if (report->error_count > CATALOG_PROBLEMS_MAX)
        buf_append_cstr(&text, "; and more");
    slice faults = arena_take(arena, &text);
    return faults.len > 0 ? faults : SLICE("the policy is wrong");
}

static enum op_result refuse_change(struct policy_command *command, int status, slice problem)
{
    command->status = status;
    command->problem = problem.ptr ? problem : SLICE("out of memory");
    return OP_DONE;
}

static enum op_result refuse_document(struct policy_command *command,
                                      const struct catalog_report *report)
{
    slice faults = policy_faults(report, command->in.root, &command->op.arena);
    return refuse_change(
        command, ERR_SYNTAX,
        arena_printf(&command->op.arena, "the policy is wrong: %.*s", SLICE_ARG(faults)));
}

static enum op_result step_check(struct op *op)
{
    struct policy_command *command = command_of(op);
    const struct policy_command_request *in = &command->in;
    if (in->kind == POLICY_DELETE) /* a name that none can have is not found */
        return OP_NEXT;
    if (!policy_is_name(in->name))
        return refuse_change(
            command, ERR_SYNTAX,
            arena_printf(&op->arena,
                         "a policy's name has 1 to %d characters a-z, 0-9 and -, begins "
                         "with a letter, and is not \"test\"",
                         POLICY_NAME_MAX));
    struct catalog_report *report = catalog_report_new(NULL);
    if (!report)
        return refuse_change(command, ERR_NOMEM, SLICE_NONE);
    struct policy *policy = policy_compile(in->document, SLICE_NONE, report);
    enum op_result result = policy ? OP_NEXT : refuse_document(command, report);
    policy_unref(policy);
    catalog_report_free(report);
    if (result != OP_NEXT)
        return result;
    command->change.policy.body = json_text_of(in->document, &op->arena, POLICY_BODY_BYTES_MAX);
    if (command->change.policy.body.ptr)
        return OP_NEXT;
    command->is_large = true;
    return refuse_change(
        command, ERR_SYNTAX,
        arena_printf(&op->arena, "a policy has at most %d bytes as JSON", POLICY_BODY_BYTES_MAX));
}

/* ---- the change ---- */

static enum op_result step_change(struct op *op)
{
    struct policy_command *command = command_of(op);
    struct pg_pool *pool = vault_auth_pool(command->auth);
    if (command->in.kind == POLICY_SET)
        store_policy_set(pool, &command->query, op, &command->change);
    else
        store_policy_delete(pool, &command->query, op, &command->change);
    return OP_WAIT;
}

static void take_set(struct policy_command *command)
{
    struct policy_set set;
    struct arena *arena = &command->op.arena;
    command->status = store_policy_set_result(&command->query, &set);
    if (command->status != OK)
        return;
    command->rev = set.rev;
    if (set.changed == POLICY_STALE)
        (void)refuse_change(
            command, ERR_LIMIT,
            set.rev == 0
                ? SLICE("the account has no policy with this name")
                : arena_printf(arena, "the policy has the revision %lld, not %lld: read it again",
                               (long long)set.rev, (long long)command->in.rev));
    else if (set.changed != POLICY_CHANGED)
        (void)refuse_change(
            command, ERR_LIMIT,
            arena_printf(arena, "the account has the maximum of %d policies: delete one first",
                         POLICIES_MAX));
}

static void take_deletion(struct policy_command *command)
{
    struct policy_users users;
    struct arena *arena = &command->op.arena;
    command->status = store_policy_delete_result(&command->query, &users);
    if (command->status != OK || users.count == 0)
        return;
    (void)refuse_change(command, ERR_LIMIT,
                        arena_printf(arena, "%lld valid key%s the policy: %.*s%s",
                                     (long long)users.count, users.count == 1 ? " names" : "s name",
                                     SLICE_ARG(users.labels), users.count > 10 ? ", ..." : ""));
}

/* The keys that have the policy are not known here: all of the account's are dropped. They are
 * dropped even if it is not known whether the change was made. */
static enum op_result step_changed(struct op *op)
{
    struct policy_command *command = command_of(op);
    if (command->in.kind == POLICY_SET)
        take_set(command);
    else
        take_deletion(command);
    if (command->status == OK || command->status == ERR_CLOSED)
        vault_auth_changed(command->auth, command->in.account_id);
    return OP_DONE;
}

static const struct op_step steps[] = {
    [CHECK] = {"check", step_check, 0},
    [CHANGE] = {"change", step_change, 0},
    [CHANGED] = {"changed", step_changed, 0},
};
static const struct op_class command_class = {.name = "policy_command", OP_STEPS(steps)};

void policy_command_start(struct vault_auth *auth, struct policy_command *command,
                          const struct policy_command_request *request, struct op *parent)
{
    ASSERT(parent && request->by.actor.len > 0 &&
           (request->document || request->kind == POLICY_DELETE));
    *command = (struct policy_command){
        .status = ERR_CLOSED,
        .auth = auth,
        .in = *request,
        .change = {.by = request->by,
                   .policy = {.account_id = request->account_id, .name = request->name},
                   .has_rev = request->has_rev,
                   .rev = request->rev},
    };
    op_start(&command->op, &command_class, parent->loop, parent, COMMAND_ARENA_BYTES_MAX);
}
