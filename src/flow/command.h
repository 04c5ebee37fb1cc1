/*
 * A command as its steps see it: command.c has the steps of a change and the table of
 * all steps, start.c has the steps of a start.
 */
#ifndef FLOW_COMMAND_H
#define FLOW_COMMAND_H

#include "flow/internal.h"

enum {
    FLOW_COMMAND_AGAIN_MS = 100,
};

enum command_step {
    COMMAND_BEGIN,
    COMMAND_CHECK_KEY,
    COMMAND_START,
    COMMAND_SEND,
    COMMAND_STARTED,
    COMMAND_LOAD,
    COMMAND_LOADED,
    COMMAND_TEMPLATE,
    COMMAND_DECIDE,
    COMMAND_APPROVER,
    COMMAND_TAKE,
    COMMAND_REJECT,
    COMMAND_CANCEL,
    COMMAND_CHANGED,
    COMMAND_AUDITED,
};

OP_OF(command_of, flow_command)

/* Answers are in the caller's arena, since the caller may read them some turns later, when this
 * op's arena has been freed. */
struct arena *flow_command_arena(const struct flow_command *command);
/* Ends the command with this answer; returns OP_DONE, as the next functions do. */
enum op_result flow_command_answer(struct flow_command *command, enum flow_answer how,
                                   slice message);
/* Also called after a durable change, if only its answer cannot be made. */
enum op_result flow_command_unavailable(struct flow_command *command);
/* message is SLICE_NONE if there was no memory for it. */
enum op_result flow_command_conflict(struct flow_command *command, slice message);
/* Answers with the view. The change is durable by now: if the view is too large for memory it is
 * omitted, and the command still succeeds. */
enum op_result flow_command_view(struct flow_command *command, const struct flow_whole *whole,
                                 const struct flow_template *tmpl);
/* Continues at the step after a short time. The number of retries is limited, because a client
 * waits: if other changes are always faster, the client gets a 503. */
enum op_result flow_command_retry(struct flow_command *command, enum command_step step);
/* Whether the result of a sent change is unknown. ERR_NOMEM: the change was made, but there was
 * no memory for its rows. */
bool flow_command_is_lost(int status);
/* Returns false, with the command answered, if this node cannot run another flow. Commands may use
 * twice the slots of timers and adoption: a person waits for a command, but due flows can stay in
 * the database. */
bool flow_command_can_run(struct flow_command *command) MUST_CHECK;

/* start.c */

/* Begins a start: checks what needs no database, and loads its idempotency key if it has one. A
 * null for an optional member means absent, for the fingerprint, too. Without the template the
 * input stays unchanged. An API key that may not start the flow does not get the result of an
 * earlier start either. */
enum op_result flow_start_begin(struct flow_command *command);
/* The next step, if a key was loaded. */
enum op_result flow_start_check_key(struct op *op);
/* The checks that need no database come first. The first step is planned before anything is
 * written, so that its intent or its pause is part of the insert. */
enum op_result flow_start_plan(struct op *op);
/* Each attempt sends the same statement, which recognizes the result of an earlier attempt. */
enum op_result flow_start_send(struct op *op);
/* Reads the result; a flow that was stored is launched. The view is written before the launch,
 * because it shows revision 1, which is in run->flow until then. */
enum op_result flow_start_sent(struct op *op);

#endif
