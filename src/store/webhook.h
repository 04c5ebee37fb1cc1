/*
 * webhook: an account's endpoint, to which events are sent. Its signing secrets are sealed
 * (vault/seal.h). The table has few rows, and is copied to every node of a cluster, so changes are
 * functions of the schema, as those of API keys are.
 */
#ifndef STORE_WEBHOOK_H
#define STORE_WEBHOOK_H

#include "store/audit.h"

enum {
    WEBHOOK_URL_MAX = 2000,        /* bytes */
    WEBHOOK_DESCRIPTION_MAX = 200, /* characters */
    WEBHOOKS_MAX = 10,             /* endpoints of an account */
};

/* The kinds of events that an endpoint can choose, with their text in lists. An endpoint without a
 * choice also gets those of later versions. */
#define EVENT_KINDS(X)                                                                            \
    X(FLOW_WAITING, "flow.waiting", "A flow waits for an approval")                               \
    X(FLOW_APPROVED, "flow.approved", "Calls of a flow were approved")                            \
    X(FLOW_COMPLETED, "flow.completed", "A flow completed")                                       \
    X(FLOW_FAILED, "flow.failed", "A flow failed")                                                \
    X(FLOW_CANCELLED, "flow.cancelled", "A flow was cancelled or rejected")                       \
    X(EXECUTION_OUTCOME_UNKNOWN, "execution.outcome_unknown",                                     \
      "It is not known whether a write was done")                                                 \
    X(CONNECTION_CONNECTED, "connection.connected", "An app was connected")                       \
    X(CONNECTION_REAUTH_REQUIRED, "connection.reauth_required", "A connection needs a new grant") \
    X(CONNECTION_RECOVERED, "connection.recovered",                                               \
      "A connection that needed a new grant has one")                                             \
    X(CONNECTION_DELETED, "connection.deleted", "A connection was deleted")                       \
    X(WEBHOOK_DISABLED, "webhook.disabled", "Another endpoint of the account was switched off")
#define EVENT_KIND_ENUM(name, text, sentence) EVENT_##name,
enum event_kind { EVENT_KINDS(EVENT_KIND_ENUM) EVENT_KIND_COUNT };
#define EVENT_KIND_WORD(name, text, sentence) " " text
/* All names as one text, with a space before each name. */
#define EVENT_KIND_WORDS EVENT_KINDS(EVENT_KIND_WORD)
/* Returns the kind's name, such as "flow.failed". */
slice event_kind_name(enum event_kind kind);
/* Finds a kind by its name. Returns EVENT_KIND_COUNT if no kind has that name. */
enum event_kind event_kind_find(slice name);
/* The kind of a message that tests an endpoint. No endpoint chooses it, and no row has it. */
#define EVENT_TEST SLICE("webhook.test")

struct webhook {
    struct uuid account_id, id;
    slice url;           /* SLICE_NONE: made by a later version, which alone sends to it */
    slice description;   /* "": none */
    slice events;        /* names of kinds, separated by spaces; SLICE_NONE: all */
    slice sealed;        /* the secret's bytes */
    slice old_sealed;    /* a rolled secret, which also signs until old_until; or SLICE_NONE */
    slice key_id;        /* the master key of both */
    int64_t old_until;   /* 0: no rolled secret */
    struct uuid api_key; /* the key that made it; nil: a command or a person did */
    int64_t off_at;      /* 0: it is on */
    slice off_reason;    /* "requested", "answered_410" or "failing"; SLICE_NONE while it is on */
    int64_t failing_since, failures; /* since the last success; 0: it does not fail */
    int64_t rev;                     /* starts at 1, plus 1 with each change by store_webhook_* */
    int64_t created_at;
};

/* Reads one endpoint. The result is ERR_NOTFOUND if the account does not have it. */
void store_webhook_get(STORE_ARGS, struct uuid account_id, struct uuid id);
STORE_ROW_RESULT(store_webhook_get_result, webhook)
/* Reads all endpoints of the account, the oldest first. */
void store_webhook_list(STORE_ARGS, struct uuid account_id);
STORE_LIST_RESULT(store_webhook_list_result, webhook)

/* A change with its audit event. */
struct webhook_change {
    struct audit_by by;
    enum audit_kind kind;
    struct webhook webhook;
    bool is_forgiven; /* its failures are forgotten */
};
enum webhook_changed {
    WEBHOOK_CHANGED,
    WEBHOOK_FULL,  /* the account has WEBHOOKS_MAX */
    WEBHOOK_TWICE, /* another endpoint of the account has the URL */
    WEBHOOK_STALE, /* the row has another rev, or no longer exists */
    WEBHOOK_UNKNOWN,
};
/* Inserts the row, of all members but rev and those about failures. Not replayed: ERR_CLOSED if the
 * answer was lost, ERR_INVALID if there is no such account. */
void store_webhook_create(STORE_ARGS, const struct webhook_change *change);
/* Writes all members but api_key and created_at, if the row still has their rev. Not replayed. */
void store_webhook_update(STORE_ARGS, const struct webhook_change *change);
/* Deletes the row with account_id and id. Read the result with store_hit_result. Not replayed. */
void store_webhook_delete(STORE_ARGS, const struct webhook_change *change);
/* For the first two. */
int store_webhook_changed_result(const struct pg_query *query,
                                 enum webhook_changed *changed) MUST_CHECK;

/* Operator commands. */
int store_webhook_list_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                            struct webhook **list, size_t *count, struct err *err) MUST_CHECK;
/* As store_connection_stale_sync, for endpoints. */
int store_webhook_stale_sync(struct pg_sync *sync, struct arena *arena, slice key_id,
                             struct uuid after_account, struct uuid after_id, struct webhook **list,
                             size_t *count, struct err *err) MUST_CHECK;
/* Replaces both sealed secrets if the row still has webhook->rev. Otherwise returns ERR_NOTFOUND.
 */
int store_webhook_reseal_sync(struct pg_sync *sync, const struct webhook *webhook, slice sealed,
                              slice old_sealed, slice key_id, struct err *err) MUST_CHECK;

#endif
