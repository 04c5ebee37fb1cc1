/*
 * enrol: makes a connection from a person's credential, or from an app's grant. The app is asked
 * whether it accepts the credential and for which user (probe.h). If only a certain identity may be
 * connected, or the connection already has an identity, the user is checked before anything is
 * stored (connect/save.h).
 *
 * With is_single the owner keeps one connection for each user of the app: a connection with the
 * same identity.subject and params gets the credential instead of a new one.
 *
 * If the identity request fails, the grant is not lost: the connection is stored without an
 * identity, unless one was demanded. struct call_enrol is an op, embedded in a caller's op.
 */
#ifndef CALL_ENROL_H
#define CALL_ENROL_H

#include "connect/save.h"
#include "call/probe.h"

enum call_enrolled {
    CALL_ENROLLED,
    CALL_ENROL_REFUSED,          /* refused by the app, or cannot be sent */
    CALL_ENROL_OUTAGE,           /* not tested: the failure does not concern the credential */
    CALL_ENROL_OTHER_IDENTITY,   /* the user is not the one that may be connected */
    CALL_ENROL_UNKNOWN_IDENTITY, /* the user could not be determined */
    CALL_ENROL_GONE,             /* the connection to reconnect no longer exists */
    CALL_ENROL_FULL,             /* the account has reached its limit of connections */
    CALL_ENROL_LINK_USED,
    CALL_ENROL_UNAVAILABLE, /* the database or memory is not available */
};

/* Borrowed until the op has ended. */
struct call_enrol_request {
    struct connect_save_request save; /* auth_kind SLICE_NONE: the app's first; label SLICE_NONE:
                                       * the app's own name for the account; identity: not set,
                                       * since it is looked up */
    slice id_token;                   /* the ID token that came with a grant; SLICE_NONE: none */
    /* a grant that the app has just issued, so it is not tested */
    bool is_grant;
    bool is_single;           /* no second connection of the same subject; without a link */
    bool is_expired;          /* an access token that has to be renewed first; it is not tested */
    bool may_change_identity; /* only for a reconnect, never through a link */
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
    int find_status; /* result of the lookup of `app` */
    struct call_enrol_request in;
    struct connection former; /* reconnect only */
    struct call_probe probe;
    struct connect_save save;
    struct connect_command yield;
    bool is_twin;   /* in.save.connection_id was chosen here (is_single) */
    unsigned tries; /* such connections that were removed in the meantime */
    struct pg_pool *pool;
    struct pg_query query;
    struct audit_event event;
};
/* connect, pool and http must outlive the op; the catalog is reference-counted. */
void call_enrol_start(struct connect_service *connect, struct pg_pool *pool,
                      struct http_client *http, struct catalog *catalog, struct call_enrol *enrol,
                      const struct call_enrol_request *request, struct op *parent);

#endif
