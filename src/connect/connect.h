/*
 * connect: an account's connections to an integration as executions see them: opened credentials,
 * health, which one is the default. They are read through a small cache: a set is used for ttl_ms,
 * equal lookups share one query, and a change by this process drops it at once. A lookup loads the
 * named connection, or the choices for a call, however many connections there are.
 *
 * Credentials are JSON objects (contrib/integrations/README.md "auth": access_token, token,
 * api_key, username and password), sealed in the database, held here as struct secret.
 *
 * use.c records when each was last used.
 *
 * OAuth: oauth.h connects an app (code and PKCE), renew.c keeps its token fresh, oauth_token.c has
 * the requests and replies of token endpoints.
 */
#ifndef CONNECT_CONNECT_H
#define CONNECT_CONNECT_H

#include "base/secret.h"
#include "catalog/catalog.h"
#include "json/json.h"
#include "loop/cache.h"
#include "store/connection.h"
#include "vault/seal.h"

struct connect_service;
struct http_client;

/* All pointers outlive the service. */
struct connect_config {
    struct pg_pool *pool;
    const struct vault_ring *ring;
    struct http_client *http;  /* calls token endpoints; NULL: nothing is renewed */
    struct catalog **catalog;  /* the current snapshot; NULL if http is */
    size_t cache_max;          /* sets cached, 0: 20000; the least recently used is dropped */
    unsigned ttl_ms;           /* 0: 2000 */
    unsigned token_timeout_ms; /* for a call to a token endpoint; 0: 10000 */
    size_t kept_max;           /* connections of an account, 0: any number */
    unsigned use_every_ms;     /* between two writes of a connection's last use, 0: 60000 */
    /* Notifies the other processes; may be NULL. */
    void (*on_changed)(void *owner, struct uuid account_id, slice integration_id);
    void *owner;
};

struct connect_item {
    int64_t id, rev;
    slice label, error, auth_kind;
    slice scopes; /* granted, space-separated; SLICE_NONE: unknown */
    bool is_default;
    enum connection_status status;
    const struct json *params; /* NULL: none */
    struct secret *credential; /* JSON text; NULL if it does not open (status then shows that) */
    bool has_token;            /* contains an access token */
    bool has_refresh_token;
    int64_t expires_at; /* when the access token expires; 0: unknown, or never */
    int64_t updated_at;
};

/* How many an account may have, 0: any number; and the sentence for an account that has that many,
 * in the arena. */
size_t connect_kept_max(const struct connect_service *service);
slice connect_say_full(const struct connect_service *service, struct arena *arena);

/* Connections of one account to one integration: the one requested by id, or the choices for a call
 * (store_connection_choice). Immutable, counted. */
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
    int status;              /* OK, or as pg_query: ERR_BUSY ...; ERR_CLOSED: op was cancelled */
    struct connect_set *set; /* with OK: a reference of the caller's (connect_set_unref) */
    struct cache_wait wait;  /* private */
};

struct connect_service *connect_new(struct loop *loop,
                                    const struct connect_config *config) MUST_CHECK;
/* Loads under way are cancelled; no lookup may be waiting (asserted). */
void connect_free(struct connect_service *service);

/* id: the wanted connection (the set is empty if it is not the account's connection to the
 * integration), or 0: the choices. true: answered from the cache, op is not held. false: op is
 * held until the answer has arrived. */
bool connect_find(struct connect_service *service, struct connect_lookup *lookup,
                  struct uuid account_id, slice integration_id, int64_t id,
                  struct op *op) MUST_CHECK;
void connect_set_unref(struct connect_set *set);
/* The next find asks the database. */
void connect_forget(struct connect_service *service, struct uuid account_id, slice integration_id);

/* After this process has changed one of its rows (the commit is durable): forgets, and notifies the
 * others. */
void connect_changed(struct connect_service *service, struct uuid account_id, slice integration_id);
/* Another process has changed something of the account; of any account. */
void connect_forget_account(struct connect_service *service, struct uuid account_id);
void connect_forget_all(struct connect_service *service);

/* ---- renewal of OAuth tokens (renew.c) ---- */

enum connect_need {
    CONNECT_FRESH,
    CONNECT_AGING,   /* works, but should be renewed in the background */
    CONNECT_EXPIRED, /* wait for a new token */
};
/* By the wall clock, with a margin that follows the token's life and differs between processes.
 * CONNECT_FRESH if it cannot be renewed: only a call shows whether it still works. */
enum connect_need connect_item_need(const struct connect_service *service,
                                    const struct connect_item *item, enum catalog_auth_kind kind,
                                    int64_t now_us);

enum connect_renewed {
    CONNECT_RENEWED,            /* look it up again: another token, or another state */
    CONNECT_RENEWAL_IMPOSSIBLE, /* nothing to renew it with: no refresh token, no OAuth client */
    CONNECT_RENEWAL_GONE,       /* the grant has ended, and is marked so */
    CONNECT_RENEWAL_REFUSED,    /* by the token endpoint, for a reason other than the grant */
    CONNECT_RENEWAL_OUTAGE,     /* no usable answer; the connection is as it was */
    CONNECT_RENEWAL_TIMEOUT,    /* the same, or the caller's deadline */
    CONNECT_RENEWAL_NO_DATABASE,
};

struct connect_renewal {
    /* out */
    enum connect_renewed result;
    slice message; /* part of a sentence, in op's arena; SLICE_NONE if renewed */
    /* private */
    struct op *op;
    struct timer timer;
    struct list link;
};

/* Gets the connection another token than item's. Calls at the same time, in any process, share one
 * renewal. true: answered at once; false: op is held, at most until deadline_ns. A renewal
 * continues even if no op waits for it: a new refresh token must not be lost. */
bool connect_renew(struct connect_service *service, struct connect_renewal *renewal,
                   struct uuid account_id, slice integration_id, const struct connect_item *item,
                   uint64_t deadline_ns, struct op *op) MUST_CHECK;
/* For an op's on_cancel; harmless if it does not wait. */
void connect_renew_cancel(struct connect_renewal *renewal);
/* The same without an op that waits; after failures limited by back-off. */
void connect_renew_in_background(struct connect_service *service, struct uuid account_id,
                                 slice integration_id, const struct connect_item *item);
/* Under way: a shutdown waits for them. */
size_t connect_renewals_active(const struct connect_service *service);
/* The last resort of a shutdown. */
void connect_renewals_cancel(struct connect_service *service);

/* ---- when it was last used (use.c) ---- */

/* It was used for a call to the app, which failed if failure (for a person) is not SLICE_NONE.
 * Costs no write: many uses are stored as one, some seconds later. */
void connect_used(struct connect_service *service, struct uuid account_id, int64_t id,
                  slice failure);
/* At the end of a shutdown: stores the remaining uses now. May be called again. */
void connect_uses_flush(struct connect_service *service);
bool connect_uses_active(const struct connect_service *service);

/* The meaning of `connected` and `connection_state` (src/api/README.md "Catalog"). */
enum connect_state {
    CONNECT_CONNECTED,
    CONNECT_NOT_CONNECTED,
    CONNECT_REAUTH_REQUIRED,
    CONNECT_AMBIGUOUS, /* several live connections, none is the default */
};
const char *connect_state_name(enum connect_state state);
/* For the choices. *chosen is the connection that a call without a connection id would use, NULL
 * if none. */
enum connect_state connect_set_state(const struct connect_set *set,
                                     const struct connect_item **chosen);
/* The same rule for an account's connections of an integration, for lists; NULL: none. */
enum connect_state connect_state_of(const struct connection_app *app);
/* NULL: the account has none of them. */
const struct connection_app *connect_app_of(const struct connection_app *apps, size_t count,
                                            slice integration_id);
/* Whether calls find a connection: connected, or several, one of which must be named. */
static inline bool connect_state_is_live(enum connect_state state)
{
    return state == CONNECT_CONNECTED || state == CONNECT_AMBIGUOUS;
}
/* A flag for each of the catalog's integrations: whether an account with these connections has it
 * connected, or does not need to. In the arena; NULL: no memory. */
const bool *connect_connected_flags(struct arena *arena, const struct catalog *catalog,
                                    const struct connection_app *apps, size_t count);

/* write.c: a connection as JSON, without its credential and params: the members of an object that
 * the caller opens and closes. */
void connect_write(struct json_writer *w, const struct connection *row);
/* What a model needs to choose a connection: id, integration_id, label, identity (a text), status,
 * default.
 */
void connect_write_brief(struct json_writer *w, const struct connection *row);

/* The cursor of a list: the text that names the last row of a page (in the arena; SLICE_NONE: no
 * memory), and from that text the page's after_*. false: malformed, or of another app than the
 * page; SLICE_NONE is the beginning. */
slice connect_cursor(const struct connection *last, struct arena *arena);
bool connect_cursor_read(slice text, struct connection_page *page) MUST_CHECK;

#endif
