/*
 * A renewal under way (renewer.c), and the slots that hold renewals and their failures (renew.c).
 */
#ifndef CONNECT_RENEWER_H
#define CONNECT_RENEWER_H

#include "connect/internal.h"
#include "connect/oauth_client.h"
#include "connect/oauth_token.h"

enum { RENEWAL_KEY_LEN = 16 + 8, RENEWAL_MESSAGE_MAX = 200 };

/* A connection that is being renewed, or whose renewal failed. */
struct slot {
    struct keyed keyed;      /* by account and connection; in service->slots */
    struct renewer *running; /* NULL: none */
    uint64_t failed_ns;      /* when the last renewal failed; 0: it did not fail */
    unsigned failures;
    enum connect_renewed result;
    char message[RENEWAL_MESSAGE_MAX + 1];
};

struct renewer {
    struct op op;
    struct connect_service *service;
    struct slot *slot;
    struct uuid account_id;
    struct uuid parent_id; /* as in struct connection; its OAuth client is used */
    int64_t id, rev;
    char integration_id[64];
    size_t integration_len;
    struct catalog *catalog;
    const struct catalog_auth *auth;
    struct list waiting; /* struct connect_renewal */
    struct secret *used; /* the credential that the caller found expired or refused */
    struct pg_query query;
    struct op_timer timer;
    unsigned tries; /* attempts to store or mark */
    /* these members are from the row, as last loaded */
    struct secret *former; /* the credential that is renewed */
    slice token_url;
    /* the OAuth client that authenticates to the token endpoint */
    struct {
        struct oauth_client_lookup lookup;
        slice id; /* empty: unknown yet */
        struct secret *secret;
    } client;
    struct {
        /* since_boot_ns is when the claim was sent; until_ns is when the wait for the claim ends, 0
         * before the first attempt */
        uint64_t since_boot_ns, until_ns;
        bool is_held;
    } claim;
    struct {
        struct oauth_request request;
        struct http_call call;
        int64_t at_us;
    } asked;
    /* the new tokens, until they are durable */
    struct {
        struct oauth_reply reply;
        struct secret *credential;
        struct buf sealed; /* the same, sealed */
    } given;
    /* out */
    enum connect_renewed result;
    slice message;
};

/* renewer.c: starts a renewal in slot, for the credential that the caller found expired or refused.
 * Returns NULL if the app's tokens cannot be renewed, or if out of memory. */
struct renewer *renewer_start(struct connect_service *service, struct slot *slot,
                              struct uuid account_id, slice integration_id,
                              const struct connect_item *item) MUST_CHECK;
/* renew.c: called at the end of a renewal; remembers a failure and releases the ops that wait. */
void renewer_ended(struct renewer *renewer);

#endif
