/*
 * command: changes an existing connection, an OAuth client or a connect link, for any interface: it
 * makes the change and its audit event (one statement), updates this process's cache, and notifies
 * other processes. save.h makes and reconnects connections.
 *
 * struct connect_command is an op, embedded in a caller's op. Borrowed members of the request live
 * until it has ended.
 */
#ifndef CONNECT_COMMAND_H
#define CONNECT_COMMAND_H

#include "connect/connect.h"
#include "store/connect_session.h"
#include "store/oauth.h"

enum connect_command_kind {
    CONNECT_MAKE_DEFAULT,
    CONNECT_RENAME,
    CONNECT_SHARE, /* with the account's users, or no longer */
    CONNECT_REMOVE,
    CONNECT_YIELD,    /* removes the connection if the account has another one of the same user */
    CONNECT_IDENTIFY, /* stores the connection's user at the app; writes no audit event */
    CONNECT_CLIENT_SET,
    CONNECT_CLIENT_REMOVE,
    CONNECT_LINK_CREATE,
    CONNECT_LINK_TAKE,
};

/* `connection` is for the first six kinds, `client` for the next two, `link` for the last two. */
struct connect_command_request {
    enum connect_command_kind kind;
    struct audit_by by;
    /* the member `by` is not used, here and in client and link */
    struct connection_change connection;
    slice label;    /* for CONNECT_RENAME: 1 to CONNECTION_LABEL_MAX characters on one line */
    bool is_shared; /* for CONNECT_SHARE */
    int64_t rev;    /* for CONNECT_IDENTIFY: the revision of the credential that was used */
    struct connection_identity identity;
    struct connection_twin twin;       /* for CONNECT_YIELD: its user */
    struct oauth_client_change client; /* its sealed secret is made from client_secret */
    slice client_secret;               /* empty: a public client */
    struct connect_session_change link;
};

struct connect_command {
    struct op op;
    /* out: OK; ERR_NOTFOUND: the account has no such row (CONNECT_YIELD: no other connection), or
     * another browser has taken the link;
     * ERR_INVALID: at each attempt, another connection became the default at the same moment; else
     * the database's status, which is ERR_CLOSED if the change may have been made */
    int status;
    slice integration_id;        /* if OK: the app of the connection; in the op's arena */
    int64_t kept_id;             /* CONNECT_YIELD, if OK: the other connection */
    struct connect_session link; /* if OK: the session of the link */
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
