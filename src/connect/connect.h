/*
 * connect: an account's connections to an integration as executions see them: opened credentials,
 * health, which one is the default. Read through a small cache: what was read is believed for
 * ttl_ms, look-ups of one (account, integration) fly once, and what this process itself changes is
 * forgotten at once.
 *
 * Credentials are JSON objects (contrib/integrations/README.md "auth": access_token, token,
 * api_key, username and password), sealed in the database, held here as struct secret.
 */
#ifndef CONNECT_CONNECT_H
#define CONNECT_CONNECT_H

#include "base/secret.h"
#include "json/json.h"
#include "store/connection.h"
#include "vault/seal.h"

struct connect_service;

struct connect_config {
    struct pg_pool *pool;          /* outlives it */
    const struct vault_ring *ring; /* outlives it */
    size_t cache_max;              /* sets remembered, 0: 20000; the least recently used goes */
    unsigned ttl_ms;               /* 0: 2000 */
};

struct connect_item {
    int64_t id, rev;
    slice label, error;
    slice scopes; /* granted, space-separated; SLICE_NONE: not known */
    bool is_default;
    enum connection_status status;
    const struct json *params; /* NULL: none */
    struct secret *credential; /* JSON text; NULL when it does not open (then status says so) */
};

/* All connections of one account to one integration; immutable, counted. */
struct connect_set {
    struct arena arena;
    unsigned refs;
    struct uuid account_id;
    slice integration_id;
    struct connect_item *items;
    size_t count;
};

struct connect_lookup {
    /* out */
    int status;              /* OK, or as pg_query: ERR_BUSY ... */
    struct connect_set *set; /* with OK: a reference of the caller's (connect_set_unref) */
    /* private */
    struct op *op;
    struct list link;
};

struct connect_service *connect_new(struct loop *loop,
                                    const struct connect_config *config) MUST_CHECK;
/* Look-ups in flight are let go safely; none may be waiting (asserted). */
void connect_free(struct connect_service *service);

/* true: answered from the cache, op is not held. false: op is held until the answer is there. */
bool connect_find(struct connect_service *service, struct connect_lookup *lookup,
                  struct uuid account_id, slice integration_id, struct op *op) MUST_CHECK;
/* For an op's on_cancel; harmless when not waiting. */
void connect_find_cancel(struct connect_lookup *lookup);
void connect_set_unref(struct connect_set *set);
/* The next find asks the database. */
void connect_forget(struct connect_service *service, struct uuid account_id, slice integration_id);

/* What `connected` and `connection_state` say (DECISIONS.md "Catalog"). */
enum connect_state {
    CONNECT_CONNECTED,
    CONNECT_NOT_CONNECTED,
    CONNECT_REAUTH_REQUIRED,
    CONNECT_AMBIGUOUS, /* several live ones, none the default */
};
const char *connect_state_name(enum connect_state state);
/* Also tells which one a call without a connection id would use: *chosen is NULL when none. */
enum connect_state connect_set_state(const struct connect_set *set,
                                     const struct connect_item **chosen);
/* The same rule over plain rows of one integration, for lists. */
enum connect_state connect_state_of(const struct connection *rows, size_t count);

#endif
