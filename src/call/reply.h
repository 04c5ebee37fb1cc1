/*
 * Parses a provider's reply: derives its meaning and the outcome from it (src/api/README.md
 * "Executions", contrib/integrations/README.md "response", "errors", "limits").
 */
#ifndef CALL_REPLY_H
#define CALL_REPLY_H

#include "catalog/catalog.h"
#include "call/build.h"
#include "call/outcome.h"
#include "http/client.h"

enum { EXEC_MESSAGE_BYTES_MAX = 2000 };

/* Returns the advice for a run of this action before anything else is known. */
enum exec_advice exec_advice_for(const struct catalog_action *action);

/* Fills reason, output, display, message, hint, error_code, retry_after_ms, provider_* of
 * *outcome from a call that has ended. Texts are in the arena. Templates see the reply and the
 * scope's input, connection_params and earlier replies; no text shows the secrets of `built`. A
 * success of a request that is not the action's last has no output: it advances the scope's
 * progress. Accesses nothing else, so that it may run on a pool thread. */
void call_reply_read(const struct catalog_action *action, const struct http_call *call,
                     const struct call_scope *scope, const struct call_built *built,
                     struct arena *arena, struct exec_outcome *outcome);

/* Renders title and summary again, for an output that was joined from several replies. */
void call_reply_display(const struct catalog_action *action, const struct json *input,
                        const struct json *output, struct arena *arena,
                        struct exec_outcome *outcome);

#endif
