/*
 * command: a change of a connection that is there, of an OAuth client, or of a connect link,
 * whichever face asks for it: the change and its audit event (one statement), what this process has
 * cached of it, what other processes hear. keep.h makes and mends connections.
 *
 * An op embedded in a caller's op. What the request borrows lives until it has ended.
 */
#ifndef CONNECT_COMMAND_H
#define CONNECT_COMMAND_H

#include "connect/connect.h"
#include "store/connect_session.h"
#include "store/oauth.h"

enum connect_command_kind {
    CONNECT_MAKE_DEFAULT,
    CONNECT_RENAME,
    CONNECT_REMOVE,
    CONNECT_IDENTIFY, /* as whom it acts was found out; without an event */
    CONNECT_CLIENT_SET,
    CONNECT_CLIENT_REMOVE,
    CONNECT_LINK_CREATE,
    CONNECT_LINK_TAKE,
};

/* connection: of the first four; client: of the next two; link: of the last two. */
struct connect_command_request {
    enum connect_command_kind kind;
    struct audit_by by;
    struct connection_change connection; /* without by, as the others */
    slice label; /* of CONNECT_RENAME: 1 to CONNECTION_LABEL_MAX characters on one line */
    int64_t rev; /* of CONNECT_IDENTIFY: the credential's that was asked with */
    struct connection_identity identity;
    struct oauth_client_change client; /* what is sealed comes of client_secret */
    slice client_secret;               /* empty: a public client */
    struct connect_session_change link;
};

struct connect_command {
    struct op op;
    /* out: OK; ERR_NOTFOUND: the account has no such row, or another browser has taken the link;
     * ERR_INVALID: others became the default at the same moment, again and again; else the
     * database's, and ERR_CLOSED where it may be done */
    int status;
    slice integration_id;        /* of a connection, where OK; in the op's arena */
    struct connect_session link; /* that was taken, likewise */
    /* private */
    struct connect_service *service;
    struct connect_command_request in;
    struct pg_query query;
    struct buf sealed;
    unsigned tries;
};
void connect_command_start(struct connect_service *service, struct connect_command *command,
                           const struct connect_command_request *request, struct op *parent);

#endif
