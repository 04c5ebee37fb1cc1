/*
 * command: a change of a connection that is there, whichever face asks for it: the change and its
 * audit event (one statement), what this process has cached of it, what other processes hear.
 *
 * An op embedded in a caller's op. What the request borrows lives until it has ended.
 */
#ifndef CONNECT_COMMAND_H
#define CONNECT_COMMAND_H

#include "connect/connect.h"

enum connect_command_kind { CONNECT_MAKE_DEFAULT, CONNECT_RENAME, CONNECT_REMOVE };

struct connect_command_request {
    enum connect_command_kind kind;
    slice label; /* of CONNECT_RENAME: 1 to CONNECTION_LABEL_MAX characters on one line */
    struct connection_change change;
};

struct connect_command {
    struct op op;
    /* out: OK; ERR_NOTFOUND: the account has no such connection; ERR_INVALID: others became
     * the default at the same moment, again and again; else the database's, and ERR_CLOSED where it
     * may be done */
    int status;
    slice integration_id; /* where OK; in the op's arena */
    /* private */
    struct connect_service *service;
    struct connect_command_request in;
    struct pg_query query;
    unsigned tries;
};
void connect_command_start(struct connect_service *service, struct connect_command *command,
                           const struct connect_command_request *request, struct op *parent);

#endif
