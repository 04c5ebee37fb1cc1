/*
 * The parts that operator commands share: database, master keys, catalog, memory. A command opens
 * the parts that it needs; session_end closes all. Functions that fail leave their message in
 * session->err.
 */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "catalog/catalog.h"
#include "cli/command.h"
#include "cli/output.h"
#include "store/account.h"
#include "store/audit.h"
#include "vault/seal.h"

enum { SESSION_ARENA_BYTES_MAX = 256 * 1024 * 1024 };

struct session {
    const struct config *config;
    struct pg_sync *sync;
    struct vault_ring *ring;
    struct catalog *catalog;
    struct arena arena; /* holds results */
    struct err err;
};

void session_begin(struct session *session, const struct config *config);
void session_end(struct session *session);

/* Runs a whole command: begin, body, end. If the result is not OK, prints session.err. Returns
 * the exit code. */
int session_run(struct command_call *call,
                int (*body)(struct session *session, struct command_call *call));

/* Connects, and refuses a schema that does not match this program. */
int session_open_database(struct session *session) MUST_CHECK;
/* Opens the master keys of the settings; starts the crypto library. */
int session_open_ring(struct session *session) MUST_CHECK;
/* Loads the built-in manifests and those of the settings' folder. */
int session_open_catalog(struct session *session) MUST_CHECK;
/* Finds the account with that id, or the only account with that name. */
int session_find_account(struct session *session, slice text, struct account *account) MUST_CHECK;

/* Connects, and finds the account that the first argument names. */
int session_open_account(struct session *session, const struct command_call *call,
                         struct account *account) MUST_CHECK;

/* Prints the rows of an account, as a table or with --json. */
int session_print_list(struct session *session, const struct command_call *call,
                       const struct output_list *list, struct uuid account_id) MUST_CHECK;
/* The body of a verb that prints its list of the account that the first argument names. */
int session_list(struct session *session, struct command_call *call) MUST_CHECK;

/* Returns the caller of a command's change: the user that runs it, and the host. The texts are in
 * the session's arena. */
struct audit_by session_by(struct session *session);

#endif
