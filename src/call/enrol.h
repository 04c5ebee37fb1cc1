/*
 * enrol: a credential from a person, or a grant from an app, becomes a connection. The app is asked
 * whether it accepts the credential and for which user (probe.h); if only a certain identity may be
 * connected, or the connection has another one, that is checked before anything is stored
 * (connect/save.h).
 *
 * A failed identity request does not lose a grant: the connection is stored without an identity,
 * unless one was demanded. An op embedded in a caller's op.
 */
#ifndef CALL_ENROL_H
#define CALL_ENROL_H

#include "connect/save.h"
#include "call/probe.h"

enum call_enrolled {
    CALL_ENROLLED,
    CALL_ENROL_REFUSED,          /* by the app, or not fit to be sent */
    CALL_ENROL_OUTAGE,           /* the app cannot be asked now */
    CALL_ENROL_OTHER_IDENTITY,   /* not the user that may be connected */
    CALL_ENROL_UNKNOWN_IDENTITY, /* the same, but it could not be determined */
    CALL_ENROL_GONE,             /* the connection to reconnect */
    CALL_ENROL_FULL,             /* the account has reached its limit of connections */
    CALL_ENROL_LINK_USED,
    CALL_ENROL_UNAVAILABLE, /* the database, or memory */
};

/* Borrowed until the op has ended. */
struct call_enrol_request {
    struct connect_save_request
        save;                 /* auth_kind SLICE_NONE: the app's first; label SLICE_NONE:
                                 the app's name for it; identity: none, since it is looked up */
    slice id_token;           /* comes with a grant; SLICE_NONE: none */
    bool is_grant;            /* fresh from the app: not tested */
    bool may_change_identity; /* reconnect only, never by a link */
};

struct call_enrol {
    struct op op;
    /* out, in the op's arena */
    enum call_enrolled result;
    slice message; /* sentences, unless enrolled */
    int64_t connection_id;
    struct connection_identity identity; /* known or not */
    bool is_tested;
    /* private */
    struct connect_service *connect;
    struct http_client *http;
    struct catalog *catalog;
    const struct catalog_integration *app;
    int find_status; /* result of its lookup */
    struct call_enrol_request in;
    struct connection former; /* reconnect only */
    struct call_probe probe;
    struct connect_save save;
    struct pg_pool *pool;
    struct pg_query query;
    struct audit_event event;
};
/* Everything but enrol and request outlives it; the catalog is counted. */
void call_enrol_start(struct connect_service *connect, struct pg_pool *pool,
                      struct http_client *http, struct catalog *catalog, struct call_enrol *enrol,
                      const struct call_enrol_request *request, struct op *parent);

#endif
