/*
 * The parts that operator commands share: database, master keys, catalog, memory. A command opens
 * those that it needs; session_end closes all. Calls that fail leave their message in session->err.
 */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "catalog/catalog.h"
#include "cli/command.h"
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

/* A command's whole run: begin, body, end; a result that is not OK is printed from session.err.
 * Returns the exit code. */
int session_run(struct command_call *call,
                int (*body)(struct session *session, struct command_call *call));

/* Connects, and refuses a schema that is not this binary's. */
int session_open_database(struct session *session) MUST_CHECK;
/* The master keys of the settings; starts the crypto library. */
int session_open_ring(struct session *session) MUST_CHECK;
/* The manifests compiled in and those of the settings' folder. */
int session_open_catalog(struct session *session) MUST_CHECK;
/* The account of that id, or the only account of that name. */
int session_find_account(struct session *session, slice text, struct account *account) MUST_CHECK;

/* Connects, and finds the account that the first argument names. */
int session_open_account(struct session *session, const struct command_call *call,
                         struct account *account) MUST_CHECK;

/* The caller of a command's change: the user that runs it, and the host; in the session's arena. */
struct audit_by session_by(struct session *session);

#endif
