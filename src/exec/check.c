/*
 * Whether the request may run: validates its input against the schema, its files, and the
 * confirmation that it needs. All faults are reported at once, with the paths of the caller's
 * request. An unconfirmed write ends as such even if something else is wrong, and before its
 * idempotency key is loaded, so that a person never confirms a request that cannot run, and nothing
 * is revealed about a key.
 */
#include "call/kept_input.h"
#include "exec/internal.h"
#include "vault/key.h"

enum { TEXT_BYTES_MAX = 256 * 1024, FILES_ON_LOOP_BYTES_MAX = 64 * 1024 };

bool exec_wants_confirmation(const struct exec *exec)
{
    if (exec_is_held(exec) && !exec->in.confirms_held) /* the approval is the confirmation */
        return false;
    return exec->action->requires_confirmation || exec->verdict.decision == POLICY_CONFIRM;
}

bool exec_is_unconfirmed(const struct exec *exec)
{
    /* a part has the confirmation of the whole, which was for a read */
    bool is_wrong_part = exec->in.is_part && exec->action && exec->action->level != LEVEL_READ;
    return exec->action && !exec->in.is_dry_run && exec_wants_confirmation(exec) &&
           (!exec->in.is_confirmed || exec->in.refusal_hint.ptr || is_wrong_part);
}

static slice input_pointer(const struct exec *exec)
{
    return exec->in.input_pointer.ptr ? exec->in.input_pointer : SLICE("/input");
}

static const char *confirm_name(const struct exec *exec)
{
    return exec->in.confirm_name ? exec->in.confirm_name : "confirm";
}

/* The confirmation may be inside the input, or under a name that another interface uses: the hint
 * says how to move or rename it. If the member were just removed, the confirmation would be
 * lost. */
static void mend_confirmation(struct exec *exec, struct schema_violation *found)
{
    slice prefix = input_pointer(exec), name = found->pointer;
    if (!slice_starts_with(name, prefix) || found->hint.len == 0)
        return;
    name = slice_from(name, prefix.len);
    if (!slice_eq_cstr(name, "/confirm") && !slice_eq_cstr(name, "/confirmed"))
        return;
    if (prefix.len == 0 && slice_eq_cstr(slice_from(name, 1), confirm_name(exec))) {
        /* a tool of its own whose calls need no confirmation: it does not take the argument */
        found->hint = SLICE("leave it out: this call needs no confirmation");
        return;
    }
    slice hint = arena_printf(&exec->op.arena,
                              prefix.len > 0 ? "move \"%.*s\" out of the input: \"%s\" beside it"
                                             : "rename \"%.*s\" to \"%s\"",
                              SLICE_ARG(slice_from(name, 1)), confirm_name(exec));
    if (hint.ptr)
        found->hint = hint;
}

/* A secret is in no message: messages are stored and logged. */
static void hide_secret(struct exec *exec, struct schema_violation *found)
{
    slice prefix = input_pointer(exec);
    if (!slice_starts_with(found->pointer, prefix) ||
        !kept_input_hides(kept_input_schema(exec->action), exec->in.input,
                          slice_from(found->pointer, prefix.len), &exec->op.arena))
        return;
    found->message = SLICE("is not valid");
    found->hint = SLICE_NONE;
}

static void check_schema(struct exec *exec)
{
    struct exec_faults *faults = &exec->faults;
    struct schema_report report;
    struct buf text;
    if (schema_validate(exec->action->schema, exec->in.input, NULL))
        return;
    schema_report_init(&report, &exec->op.arena, input_pointer(exec));
    if (schema_validate(exec->action->schema, exec->in.input, &report))
        return;
    for (size_t i = 0; i < report.count; i++) {
        struct schema_violation *found = &report.violations[i];
        hide_secret(exec, found);
        mend_confirmation(exec, found);
        if (found->pointer.len == 0) /* the request body itself is the input */
            found->pointer = SLICE("the arguments");
    }
    buf_init(&text, TEXT_BYTES_MAX);
    schema_report_write(&report, &text);
    faults->input = arena_dup(&exec->op.arena, buf_slice(&text));
    if (faults->input.len == 0)
        faults->input = SLICE("the input does not match its schema");
    buf_clear(&text);
    schema_report_write_hints(&report, &text);
    if (text.len > 0)
        faults->input_hints = arena_dup(&exec->op.arena, buf_slice(&text));
    buf_deinit(&text);
}

static void find_file_faults(struct exec *exec)
{
    exec->faults.files = call_files_check(exec->action, exec->in.files, exec->in.file_count,
                                          exec->service->config.file_bytes_max, &exec->op.arena);
}

/* "/input/to: must be a string; /files/0: has no data" */
static void append_faults(const struct exec *exec, struct buf *out)
{
    const char *separator = exec->faults.input.len > 0 ? "; " : "";
    buf_append(out, exec->faults.input);
    if (exec->faults.files.len > 0)
        buf_printf(out, "%s%.*s", separator, SLICE_ARG(exec->faults.files));
    for (uint32_t i = 0; i < CALL_FILES_MAX; i++) {
        if (!(exec->faults.files_broken & (1u << i)))
            continue;
        buf_printf(out, "%s/files/%u/data: must be standard base64 with padding", separator, i);
        separator = "; ";
    }
}

static bool are_files_faulty(const struct exec *exec)
{
    return exec->faults.files.ptr || exec->faults.files_broken;
}

/* Whether there is no file, or a file's data is missing or not valid base64 (for example a
 * path). */
static bool is_file_data_lacking(const struct exec *exec)
{
    bool is_lacking = exec->faults.files_broken != 0 || exec->in.file_count == 0;
    for (size_t i = 0; i < exec->in.file_count; i++)
        is_lacking |= !exec->in.files[i].data.ptr;
    return is_lacking;
}

static void append_hints(const struct exec *exec, struct buf *out)
{
    const struct exec_faults *faults = &exec->faults;
    if (faults->input.len > 0) {
        buf_append(out, SLICE("Correct the input: "));
        buf_append(out, faults->input_hints);
        if (faults->input_hints.len > 0)
            buf_append(out, SLICE("; "));
        buf_printf(out, "GET /api/actions/%.*s/%.*s shows the input_schema.",
                   SLICE_ARG(exec->out.integration_id), SLICE_ARG(exec->out.action_id));
    }
    if (are_files_faulty(exec)) {
        if (out->len > 0)
            buf_append_char(out, ' ');
        buf_append(out, call_files_hint(exec->action, is_file_data_lacking(exec)));
    }
}

/* For a person who is asked to confirm it. */
static void append_reason(const struct exec *exec, struct buf *out)
{
    slice reason = exec_policy_reason(exec);
    buf_append_cstr(out, ", as the policy of this API key requires");
    if (reason.len > 0)
        buf_printf(out, " (%.*s)", SLICE_ARG(reason));
}

static void append_unconfirmed(const struct exec *exec, bool is_faulty, struct buf *out)
{
    buf_printf(out, "%.*s is a %s action and %s", SLICE_ARG(exec->action->title),
               catalog_level_name(exec->action->level),
               exec->in.refusal_hint.ptr
                   ? "needs the consent of a person, but this client cannot show a form"
                   : "was not confirmed");
    if (exec->verdict.decision == POLICY_CONFIRM)
        append_reason(exec, out);
    if (is_faulty)
        buf_append(out, SLICE(", and the action cannot run as requested: "));
}

static void append_how_to_confirm(const struct exec *exec, struct buf *out)
{
    const char *confirm = confirm_name(exec);
    if (exec->in.refusal_hint.ptr)
        buf_printf(out, "%s%.*s", out->len > 0 ? " " : "", SLICE_ARG(exec->in.refusal_hint));
    else if (out->len > 0)
        buf_printf(out, " Then send it with %s: true once the user agrees.", confirm);
    else
        buf_printf(out, "Send the same request again with %s: true once the user agrees.", confirm);
}

enum op_result exec_step_check_input(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(exec->out.attempts == 0);
    if (!exec->action)
        return exec_stop_unknown(exec);
    check_schema(exec);
    find_file_faults(exec);
    bool is_faulty = exec->faults.input.ptr || are_files_faulty(exec);
    bool is_unconfirmed = exec_is_unconfirmed(exec) && !exec_is_denied(exec);
    struct buf message, hint;
    if (exec->faults.files_status != OK)
        return exec_stop_memory(exec);
    if (!is_faulty && exec_is_denied(exec))
        return exec_stop_denied(exec);
    if (!is_faulty && !is_unconfirmed)
        return OP_NEXT;
    buf_init(&message, TEXT_BYTES_MAX);
    buf_init(&hint, TEXT_BYTES_MAX);
    if (is_unconfirmed)
        append_unconfirmed(exec, is_faulty, &message);
    append_faults(exec, &message);
    buf_append(&message, SLICE(". Nothing was done."));
    append_hints(exec, &hint);
    if (is_unconfirmed)
        append_how_to_confirm(exec, &hint);
    return exec_stop(exec, is_unconfirmed ? EXEC_CONFIRMATION_MISSING : EXEC_INPUT_INVALID,
                     arena_take(&op->arena, &message), arena_take(&op->arena, &hint));
}

/* ---- files ---- */

/* The hashes are part of the fingerprint, so they are computed even if the action no longer exists:
 * its idempotency key may have a result. Files are not decoded if there are too many or one is too
 * large. */
static void take_files(struct op *op)
{
    struct exec *exec = exec_of(op);
    struct call_file *files = exec->in.files;
    bool is_wanted = exec->action && !exec->faults.files.ptr;
    for (size_t i = 0; i < exec->in.file_count; i++) {
        if (exec->in.idempotency_key.len > 0)
            vault_sha256(files[i].data, files[i].hash);
        int status = is_wanted && exec->faults.files_status == OK
                         ? call_file_decode(&files[i], &op->arena)
                         : OK;
        if (status == ERR_SYNTAX)
            exec->faults.files_broken |= 1u << i;
        else if (status != OK)
            exec->faults.files_status = status;
    }
}

/* This step comes before LOAD_KEY, because the key's fingerprint contains the hashes. Hashing takes
 * at most some 100 us of the loop's time; larger files are hashed on a pool thread. */
enum op_result exec_step_take_files(struct op *op)
{
    struct exec *exec = exec_of(op);
    size_t size = call_files_size(exec->in.files, exec->in.file_count);
    if (exec->action)
        find_file_faults(exec);
    return op_run_job(op, &exec->job, size > FILES_ON_LOOP_BYTES_MAX, take_files,
                      "its files to be taken");
}
