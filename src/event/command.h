/*
 * command: a change of an endpoint, from any face: the change and its audit event (one statement).
 * Endpoints are not cached, so no other process is notified.
 *
 * An op, embedded in a caller's op. Borrowed members of the request live until it has ended.
 */
#ifndef EVENT_COMMAND_H
#define EVENT_COMMAND_H

#include "event/event.h"
#include "event/sign.h"

enum { WEBHOOK_OVERLAP_S_MAX = 7 * 24 * 60 * 60 };

enum webhook_command_kind { WEBHOOK_CREATE, WEBHOOK_CHANGE, WEBHOOK_ROLL, WEBHOOK_DELETE };

struct webhook_command_request {
    enum webhook_command_kind kind;
    struct audit_by by;
    struct uuid account_id;
    struct uuid id;      /* of an existing endpoint */
    struct uuid api_key; /* of a new one, as in struct webhook */
    slice public_url;    /* sluice's own URL, which no endpoint may have; may be empty */
    /* For the first two kinds; a new endpoint has all of these */
    bool has_url, has_description, has_kinds, has_switch;
    slice url;
    slice description; /* "": none */
    uint32_t kinds;    /* 1 << enum event_kind ...; 0: all, also those of later versions */
    bool is_on;        /* true also forgets its failures */
    /* For WEBHOOK_ROLL: how long the old secret signs, too. One that was rolled before no longer
     * does. */
    int64_t overlap_s;
    /* For WEBHOOK_CHANGE and WEBHOOK_ROLL: the endpoint's as it was read, so that a request that is
     * sent twice rolls once, and a form does not undo another person's change; 0: any. */
    int64_t rev;
};

struct webhook_command {
    struct op op;
    /* out: OK; ERR_NOTFOUND if the account has no such endpoint; ERR_SYNTAX if the request is wrong
     * (err says what); ERR_LIMIT if the account has too many endpoints, or another one with the
     * URL, or the endpoint has another rev (err); ERR_CRYPTO if the secret to roll does not open
     * (err); ERR_INVALID if the account does not exist; ERR_CLOSED if the change may have been
     * made; else the query's status */
    int status;
    struct err err;
    struct webhook webhook; /* after the change; its texts are in the op's arena or the request's */
    char secret[EVENT_SECRET_TEXT_MAX + 1]; /* of the first and third kind; wipe it once shown */
    /* private */
    struct event_service *service;
    struct webhook_command_request in;
    struct webhook_change change;
    struct pg_query query;
    struct buf sealed, old_sealed;
    unsigned tries;
};
/* service outlives it. */
void webhook_command_start(struct event_service *service, struct webhook_command *command,
                           const struct webhook_command_request *request, struct op *parent);

#endif
