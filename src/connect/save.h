/*
 * save: seals a credential and stores it, as a new connection or as a new credential of an existing
 * one, with an audit event. If the request comes through a connect link, the link is used up first,
 * so that it makes at most one connection, even if it is used twice at the same time. The first
 * connection of an app becomes its default.
 *
 * struct connect_save is an op, embedded in a caller's op. Borrowed members of the request live
 * until it has ended.
 */
#ifndef CONNECT_SAVE_H
#define CONNECT_SAVE_H

#include "connect/command.h"
#include "store/audit.h"
#include "store/connect_session.h"

enum connect_saved {
    CONNECT_SAVED,
    CONNECT_SAVE_GONE,        /* the account no longer has the connection to reconnect */
    CONNECT_SAVE_FULL,        /* the account has reached its limit */
    CONNECT_SAVE_LINK_USED,   /* the link has made a connection already, or has ended */
    CONNECT_SAVE_TOO_LARGE,   /* the credential is too large */
    CONNECT_SAVE_UNAVAILABLE, /* the database or memory is not available */
};

struct connect_save_request {
    struct uuid account_id;
    slice integration_id, auth_kind;
    int64_t connection_id; /* the connection to reconnect; 0: make a new one */
    int64_t new_id;        /* new connections only; 0: generate one. If the id exists already, no
                            * second connection is made */
    slice label, params;   /* new connections only; params a JSON object or SLICE_NONE */
    slice credential;      /* JSON text */
    slice scopes;          /* granted; SLICE_NONE: unknown */
    int64_t expires_at;
    struct connection_identity identity;
    bool is_default;                    /* it becomes the default even if there is another one */
    const struct connect_session *link; /* NULL if the request does not come through a link */
    struct audit_by by;
};

struct connect_save {
    struct op op;
    /* out */
    enum connect_saved result;
    int64_t connection_id;
    bool is_default; /* it is the default now */
    /* private */
    struct connect_service *service;
    struct connect_save_request in;
    struct connection row;
    struct pg_query query, audit_query;
    struct connect_command command; /* makes it the default */
    struct buf sealed;
    struct op_timer timer;
    struct audit_event event;
    bool has_link; /* the link is used for this connection */
    bool is_there; /* an earlier request with the same new_id has made the connection */
    unsigned tries;
};
void connect_save_start(struct connect_service *service, struct connect_save *save,
                        const struct connect_save_request *request, struct op *parent);

/* Writes the link's members ("link_id", ...) into the open object of w, the details of an audit
 * event. Writes nothing for NULL. */
void connect_write_link(struct json_writer *w, const struct connect_session *link);
void connect_write_identity(struct json_writer *w, const struct connection_identity *identity);

#endif
