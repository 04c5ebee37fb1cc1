/*
 * connect: an account's connections to an integration as executions use them: opened credentials,
 * health, and which one is the default. They are read through a small cache: a set is used for
 * ttl_ms, equal lookups share one query, and a change by this process drops it at once. A lookup
 * loads the named connection, or the choices for a call, however many connections there are.
 *
 * Credentials are JSON objects (contrib/integrations/README.md "auth": access_token, token,
 * api_key, username and password). They are sealed in the database, and held here as struct secret.
 *
 * use.c records when each connection was last used.
 *
 * For OAuth, oauth.h connects an app (code and PKCE), renew.c renews its token, and oauth_token.c
 * makes the requests to token endpoints and parses the replies.
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
struct event_service;
struct http_client;

/* All pointers must outlive the service. */
struct connect_config {
    struct pg_pool *pool;
    const struct vault_ring *ring;
    struct http_client *http;     /* calls token endpoints; NULL: nothing is renewed */
    struct catalog **catalog;     /* the current snapshot; NULL if http is NULL */
    size_t cache_max;             /* maximum of cached sets, 0: 20000; the least recently used is
                                   * dropped */
    unsigned ttl_ms;              /* 0: 2000 */
    unsigned token_timeout_ms;    /* for a request to a token endpoint; 0: 10000 */
    size_t connections_max;       /* connections that an account may have, 0: unlimited */
    struct event_service *events; /* sends the events of connections; NULL: another process does */
    unsigned use_every_ms;        /* between two writes of a connection's last use, 0: 60000 */
    /* Notifies the other processes; may be NULL. */
    void (*on_changed)(void *owner, struct uuid account_id, slice integration_id);
    void *owner;
};

struct connect_item {
    int64_t id, rev;
    slice label, error, auth_kind;
    slice scopes; /* granted, space-separated; SLICE_NONE: unknown */
    bool is_default, is_shared;
    enum connection_status status;
    const struct json *params; /* NULL: none */
    struct secret *credential; /* JSON text; NULL if it cannot be opened (status then shows that) */
    bool has_token;            /* contains an access token */
    bool has_refresh_token;
    int64_t expires_at; /* when the access token expires; 0: unknown, or never */
    int64_t updated_at;
    struct uuid parent_id; /* as in struct connection */
};

/* Returns the number of connections that an account may have; 0 if unlimited. connect_say_full
 * returns the sentence for an account that has reached it, in the arena. */
size_t connect_connections_max(const struct connect_service *service);
slice connect_say_full(const struct connect_service *service, struct arena *arena);

/* Connections of one account to one integration: the one requested by id, the choices for a call
 * (store_connection_choice), or those that the account shares with its users. Immutable,
 * reference-counted. */
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
    int status;              /* OK, ERR_CLOSED if op was cancelled, or the status of the query */
    struct connect_set *set; /* if OK: a reference for the caller (connect_set_unref) */
    struct cache_wait wait;  /* private */
};

struct connect_service *connect_new(struct loop *loop,
                                    const struct connect_config *config) MUST_CHECK;
/* Cancels loads under way. Asserts that no lookup is waiting. */
void connect_free(struct connect_service *service);

/* id: the wanted connection (the set is empty if the account has no such connection to the
 * integration), 0: the choices, CONNECT_SHARED: the choices among those that the account shares
 * with its users. Returns true if the cache has the answer; op is then not held.
 * Otherwise op is held until the answer has arrived. */
enum { CONNECT_SHARED = -1 };
bool connect_find(struct connect_service *service, struct connect_lookup *lookup,
                  struct uuid account_id, slice integration_id, int64_t id,
                  struct op *op) MUST_CHECK;
void connect_set_unref(struct connect_set *set);
/* Drops the sets from the cache, so that the next connect_find loads them again. */
void connect_forget(struct connect_service *service, struct uuid account_id, slice integration_id);

/* To be called after this process has changed a connection of the account to this integration, and
 * the commit is durable: drops the cached sets, and notifies the other processes. */
void connect_changed(struct connect_service *service, struct uuid account_id, slice integration_id);
/* To be called when another process has changed something of this account, or of any account. */
void connect_forget_account(struct connect_service *service, struct uuid account_id);
void connect_forget_all(struct connect_service *service);

/* The callback of a watch runs after each change of the account's connections by any process, and
 * also if notifications may have been missed. It only stores a fact or wakes an op. */
struct connect_watch {
    struct uuid account_id;
    void (*on_change)(struct connect_watch *watch);
    struct list link; /* private */
};
void connect_watch_add(struct connect_service *service, struct connect_watch *watch);
/* Does nothing if the watch was not added, or was removed before. */
void connect_watch_remove(struct connect_watch *watch);
/* Call it after the server has begun to drain. */
void connect_watch_wake_all(struct connect_service *service);

/* ---- renewal of OAuth tokens (renew.c) ---- */

enum connect_need {
    CONNECT_FRESH,
    CONNECT_AGING,   /* works, but should be renewed in the background */
    CONNECT_EXPIRED, /* wait for a new token */
};
/* Uses the wall clock, with a margin that depends on the token's life and differs between
 * processes. Returns CONNECT_FRESH if the token cannot be renewed: only a call shows whether it
 * still works. */
enum connect_need connect_item_need(const struct connect_service *service,
                                    const struct connect_item *item, enum catalog_auth_kind kind,
                                    int64_t now_us);

enum connect_renewed {
    /* the connection has another token or another state: look it up again */
    CONNECT_RENEWED,
    CONNECT_RENEWAL_IMPOSSIBLE, /* there is no refresh token or no OAuth client to renew it with */
    CONNECT_RENEWAL_GONE,       /* the grant has ended, and the connection is marked */
    CONNECT_RENEWAL_REFUSED,    /* the token endpoint refused, for a reason other than the grant */
    CONNECT_RENEWAL_OUTAGE,     /* no usable answer; the connection is unchanged */
    CONNECT_RENEWAL_TIMEOUT,    /* no answer in time, or the caller's deadline passed */
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

/* Replaces the token in item by a new token of the connection. Concurrent calls, in any process,
 * share one renewal. Returns true if the result is set at once; otherwise op is held, at most until
 * deadline_ns. A renewal continues even if no op waits for it: a new refresh token must not be
 * lost. */
bool connect_renew(struct connect_service *service, struct connect_renewal *renewal,
                   struct uuid account_id, slice integration_id, const struct connect_item *item,
                   uint64_t deadline_ns, struct op *op) MUST_CHECK;
/* For an op's on_cancel; harmless if the op does not wait. */
void connect_renew_cancel(struct connect_renewal *renewal);
/* Renews without an op that waits. After a failure, back-off limits the attempts. */
void connect_renew_in_background(struct connect_service *service, struct uuid account_id,
                                 slice integration_id, const struct connect_item *item);
/* Returns the number of renewals under way, for which a shutdown waits. */
size_t connect_renewals_active(const struct connect_service *service);
/* The last resort of a shutdown: cancels all renewals. */
void connect_renewals_cancel(struct connect_service *service);

/* ---- when it was last used (use.c) ---- */

/* Records that the connection was used for a call to the app. The call failed if failure, a text
 * for a person, is not SLICE_NONE. Nothing is written at once: many uses are stored together, some
 * seconds later. */
void connect_used(struct connect_service *service, struct uuid account_id, struct uuid payer_id,
                  int64_t id, slice failure);
/* Called at the end of a shutdown: stores the remaining uses now. May be called again. */
void connect_uses_flush(struct connect_service *service);
bool connect_uses_active(const struct connect_service *service);

/* The meaning of `connected` and `connection_state` (src/api/README.md "Catalog"). */
enum connect_state {
    CONNECT_CONNECTED,
    CONNECT_NOT_CONNECTED,
    CONNECT_REAUTH_REQUIRED,
    CONNECT_AMBIGUOUS, /* several live connections, and none is the default */
};
const char *connect_state_name(enum connect_state state);
/* Returns the state of a set of choices. *chosen is the connection that a call without a connection
 * id would use, or NULL. */
enum connect_state connect_set_state(const struct connect_set *set,
                                     const struct connect_item **chosen);
/* Returns the state of an account's connections to an integration, for lists. app is NULL if there
 * are none. */
enum connect_state connect_state_of(const struct connection_app *app);
/* The apps of an account, or of one of its users: for an app to which a user has no connection,
 * those that the account shares, if one of them works. parent_id: nil for the account itself. */
struct connect_apps {
    struct pg_query own, shared;
    bool is_of_user;
};
void connect_apps_load(struct pg_pool *pool, struct connect_apps *apps, struct op *op,
                       struct uuid account_id, struct uuid parent_id);
/* The list is in the op's arena. */
int connect_apps_result(const struct connect_apps *apps, struct arena *arena,
                        struct connection_app **list, size_t *count) MUST_CHECK;
/* Returns NULL if the account has no connection to the integration. */
const struct connection_app *connect_app_of(const struct connection_app *apps, size_t count,
                                            slice integration_id);
/* Whether calls find a connection: it is connected, or there are several, and the call must name
 * one. */
static inline bool connect_state_is_live(enum connect_state state)
{
    return state == CONNECT_CONNECTED || state == CONNECT_AMBIGUOUS;
}
/* Returns the state of an integration, which may need no connection. */
enum connect_state connect_state_for(const struct catalog_integration *integration,
                                     const struct connection_app *apps, size_t count);
/* Returns one flag for each integration of the catalog, in the arena: whether an account with these
 * connections has it connected, or it needs no connection. Returns NULL if out of memory. */
const bool *connect_connected_flags(struct arena *arena, const struct catalog *catalog,
                                    const struct connection_app *apps, size_t count);

/* write.c: writes a connection as JSON, without its credential and params: the members of an
 * object that the caller opens and closes. */
void connect_write(struct json_writer *w, const struct connection *row);
/* Returns a connection that the account shares, as its users may know it: without what it acts as,
 * its scopes and its use. */
struct connection connect_as_shared(const struct connection *row);
/* Writes what a model needs to choose a connection: id, integration_id, label, identity (a text),
 * status, default. */
void connect_write_brief(struct json_writer *w, const struct connection *row);

/* The cursor of a list. connect_cursor makes the text that names the last row of a page, in the
 * arena (SLICE_NONE if out of memory). The second function sets the page's after_* from that text;
 * it returns false if the text is malformed or names another app than the page. SLICE_NONE means
 * the beginning. */
slice connect_cursor(const struct connection *last, struct arena *arena);
bool connect_cursor_read(slice text, struct connection_page *page) MUST_CHECK;

#endif
