/*
 * The cache of connections; see connect.h.
 *
 * An entry is a set, by account, app and connection. All sets of an account and app form a group,
 * since a change of one connection may change each of them.
 *
 * Failures are not cached: the next lookup starts a new load.
 */
#include "connect/connect.h"

#include "base/mem.h"
#include "connect/internal.h"

enum {
    CACHE_MAX_DEFAULT = 20000,
    TTL_MS_DEFAULT = 2000,
    TOKEN_TIMEOUT_MS_DEFAULT = 10000,
    USE_EVERY_MS_DEFAULT = 60000,
    KEY_TAIL_LEN = 8, /* connection */
    /* account and integration; the catalog does not allow longer ids */
    KEY_MAX = 16 + 64 + KEY_TAIL_LEN,
    SET_ARENA_BYTES_MAX = 4 * 1024 * 1024,
    LOAD_ARENA_BYTES_MAX = 8 * 1024 * 1024,
    TOKENS_ARENA_BYTES_MAX = 1024 * 1024,
};

struct entry {
    struct cache_entry cached;
    int status;
    struct connect_set *set; /* set if status is OK */
};

struct load {
    struct cache_load under;
    struct pg_query query;
};

/* A parsed key. */
struct wanted {
    struct uuid account_id;
    slice integration_id;
    int64_t id; /* 0: the choices; or CONNECT_SHARED */
};

static slice make_entry_key(char key[KEY_MAX], const struct wanted *wanted)
{
    slice integration_id = wanted->integration_id;
    ASSERT(integration_id.len <= KEY_MAX - 16 - KEY_TAIL_LEN);
    memcpy(key, wanted->account_id.bytes, 16);
    memcpy(key + 16, integration_id.ptr, integration_id.len);
    memcpy(key + 16 + integration_id.len, &wanted->id, KEY_TAIL_LEN);
    return slice_of(key, 16 + integration_id.len + KEY_TAIL_LEN);
}

static struct wanted read_entry_key(slice key)
{
    struct wanted wanted = {.integration_id = slice_of(key.ptr + 16, key.len - 16 - KEY_TAIL_LEN)};
    memcpy(wanted.account_id.bytes, key.ptr, 16);
    memcpy(&wanted.id, key.ptr + key.len - KEY_TAIL_LEN, KEY_TAIL_LEN);
    return wanted;
}

/* ---- sets ---- */

void connect_set_unref(struct connect_set *set)
{
    ASSERT(!set || set->refs > 0);
    if (!set || --set->refs > 0)
        return;
    for (size_t i = 0; i < set->count; i++)
        secret_unref(set->items[i].credential);
    arena_deinit(&set->arena);
    mem_free(set);
}

/* Finds out which tokens the connection has. The credential is parsed in a separate arena: in the
 * set's arena the tokens would stay in plain text for as long as the set is cached. Returns false
 * if out of memory. */
static bool read_tokens(struct connect_item *item)
{
    struct arena arena;
    struct err err = {0};
    arena_init(&arena, TOKENS_ARENA_BYTES_MAX);
    const struct json *credential =
        json_parse(&arena, secret_reveal(item->credential), &json_limits_provider, &err);
    item->has_token = json_get_str(credential, SLICE("access_token")).len > 0;
    item->has_refresh_token = json_get_str(credential, SLICE("refresh_token")).len > 0;
    arena_deinit(&arena);
    return credential || err.code != ERR_NOMEM;
}

/* A credential that cannot be opened (its master key is not in this process's ring) is reported as
 * reauth_required. The row stays unchanged: another process may still have the key. Returns false
 * if out of memory, which does not concern the credential. */
static bool open_credential(struct connect_service *service, struct connect_set *set,
                            const struct connection *row, struct connect_item *item)
{
    struct vault_binding binding = {set->account_id, row->id};
    struct err err;
    if (row->sealed.len == 0)
        return true;
    int status = vault_open(service->config.ring, &binding, row->key_id, row->sealed,
                            &item->credential, &err);
    if (status == OK)
        return read_tokens(item);
    if (status == ERR_NOMEM)
        return false;
    log_event(LOG_ERROR, "a stored credential does not open", LOG_INT("connection_id", row->id),
              LOG_STR("integration_id", set->integration_id), LOG_CSTR("cause", err.text));
    item->status = CONNECTION_REAUTH_REQUIRED;
    item->error = SLICE("the stored credential can no longer be opened");
    return true;
}

static bool fill_item(struct connect_service *service, struct connect_set *set,
                      const struct connection *row, struct connect_item *item)
{
    *item = (struct connect_item){
        .id = row->id,
        .rev = row->rev,
        .label = arena_dup(&set->arena, row->label),
        .error = arena_dup(&set->arena, row->error),
        .auth_kind = arena_dup(&set->arena, row->auth_kind),
        .is_default = row->is_default,
        .is_shared = row->is_shared,
        .status = row->status,
        .expires_at = row->expires_at,
        .updated_at = row->updated_at,
        .parent_id = row->parent_id,
    };
    if (row->scopes.ptr)
        item->scopes = arena_dup(&set->arena, row->scopes);
    struct err err = {0};
    if (row->params.len > 0)
        item->params = json_parse(&set->arena, row->params, &json_limits_provider, &err);
    return err.code != ERR_NOMEM && open_credential(service, set, row, item);
}

static struct connect_set *make_set(struct connect_service *service, const struct wanted *wanted,
                                    const struct connection *rows, size_t count)
{
    struct connect_set *set = mem_zalloc(sizeof(*set));
    if (!set)
        return NULL;
    set->refs = 1;
    set->account_id = wanted->account_id;
    arena_init(&set->arena, SET_ARENA_BYTES_MAX);
    set->integration_id = arena_dup(&set->arena, wanted->integration_id);
    set->items = ARENA_ARRAY(&set->arena, struct connect_item, count + 1);
    bool is_ok = set->items != NULL;
    for (size_t i = 0; is_ok && i < count; i++)
        is_ok = fill_item(service, set, &rows[i], &set->items[set->count++]);
    if (is_ok && !set->arena.is_exhausted)
        return set;
    connect_set_unref(set);
    return NULL;
}

/* ---- loads ---- */

static struct connect_service *service_of(const struct cache_load *under)
{
    return CONTAINER_OF(under->cache, struct connect_service, sets);
}

static void load_set(struct cache_load *under)
{
    struct pg_query *query = &CONTAINER_OF(under, struct load, under)->query;
    struct pg_pool *pool = service_of(under)->config.pool;
    struct wanted wanted = read_entry_key(under->entry->key);
    if (wanted.id == CONNECT_SHARED)
        store_connection_shared(pool, query, &under->op, wanted.account_id, wanted.integration_id);
    else if (wanted.id)
        store_connection_get(pool, query, &under->op, wanted.account_id, wanted.id);
    else
        store_connection_choice(pool, query, &under->op, wanted.account_id, wanted.integration_id);
}

static uint64_t set_loaded(struct cache_load *under)
{
    struct connect_service *service = service_of(under);
    struct entry *entry = CONTAINER_OF(under->entry, struct entry, cached);
    struct wanted wanted = read_entry_key(under->entry->key);
    struct connection *rows = NULL;
    size_t count = 0;
    entry->status = store_connection_list_result(&CONTAINER_OF(under, struct load, under)->query,
                                                 &rows, &count);
    if (entry->status != OK)
        return 0;
    /* store_connection_get finds a row by account and id only. If the connection belongs to
     * another app, the set is empty. */
    if (count > 0 && !slice_eq(rows[0].integration_id, wanted.integration_id))
        count = 0;
    entry->set = make_set(service, &wanted, rows, count);
    entry->status = entry->set ? OK : ERR_NOMEM;
    return entry->set ? service->config.ttl_ms : 0;
}

static void answer_lookup(struct connect_lookup *lookup, const struct entry *entry)
{
    lookup->status = entry->status;
    lookup->set = entry->set;
    if (entry->set)
        entry->set->refs++;
}

static void on_set_loaded(struct cache_wait *wait, const struct cache_entry *cached)
{
    answer_lookup(CONTAINER_OF(wait, struct connect_lookup, wait),
                  CONTAINER_OF(cached, const struct entry, cached));
}

static void drop_set(struct cache_entry *cached)
{
    connect_set_unref(CONTAINER_OF(cached, struct entry, cached)->set);
}

static const struct cache_class set_class = {
    CACHE_LOAD("connect_load", struct entry, struct load),
    .arena_bytes_max = LOAD_ARENA_BYTES_MAX,
    .tail_bytes = KEY_TAIL_LEN,
    .load = load_set,
    .loaded = set_loaded,
    .answer = on_set_loaded,
    .drop = drop_set,
};

/* ---- the service ---- */

struct connect_service *connect_new(struct loop *loop, const struct connect_config *config)
{
    struct connect_service *service = mem_zalloc(sizeof(*service));
    if (!service)
        return NULL;
    service->loop = loop;
    service->config = *config;
    if (config->cache_max == 0)
        service->config.cache_max = CACHE_MAX_DEFAULT;
    if (config->token_timeout_ms == 0)
        service->config.token_timeout_ms = TOKEN_TIMEOUT_MS_DEFAULT;
    DEFAULT_TO(service->config.ttl_ms, TTL_MS_DEFAULT);
    service->use_every_ns =
        (uint64_t)(config->use_every_ms ? config->use_every_ms : USE_EVERY_MS_DEFAULT) * 1000000;
    service->holder = uuid_v7();
    service->jitter = random_u64();
    list_init(&service->watches);
    cache_init(&service->sets, &set_class, loop, service->config.cache_max);
    connect_renewals_init(service);
    connect_uses_init(service);
    return service;
}

size_t connect_connections_max(const struct connect_service *service)
{
    return service->config.connections_max;
}

slice connect_say_full(const struct connect_service *service, struct arena *arena)
{
    return arena_printf(
        arena,
        "This account already has as many connections as it may have (%zu). Nothing was connected. "
        "Remove one that is no longer used, or reconnect one.",
        service->config.connections_max);
}

void connect_free(struct connect_service *service)
{
    if (!service)
        return;
    ASSERT(list_is_empty(&service->watches));
    cache_deinit(&service->sets);
    connect_renewals_free(service);
    connect_uses_free(service);
    mem_free(service);
}

bool connect_find(struct connect_service *service, struct connect_lookup *lookup,
                  struct uuid account_id, slice integration_id, int64_t id, struct op *op)
{
    char bytes[KEY_MAX];
    slice key = make_entry_key(bytes, &(struct wanted){account_id, integration_id, id});
    struct cache_entry *cached = cache_find(&service->sets, key);
    *lookup = (struct connect_lookup){.status = ERR_NOMEM};
    if (cached) {
        answer_lookup(lookup, CONTAINER_OF(cached, struct entry, cached));
        return true;
    }
    if (!cache_await(&service->sets, key, &lookup->wait, op))
        return true;
    /* the status if the lookup is cancelled before the answer arrives */
    lookup->status = ERR_CLOSED;
    return false;
}

/* Calls the watches of the account, or of all accounts if account_id is NULL. */
static void call_watches(struct connect_service *service, const struct uuid *account_id)
{
    LIST_EACH(&service->watches, struct connect_watch, watch, link)
        if (!account_id || uuid_eq(watch->account_id, *account_id))
            watch->on_change(watch);
}

void connect_watch_add(struct connect_service *service, struct connect_watch *watch)
{
    list_init(&watch->link);
    list_push_back(&service->watches, &watch->link);
}

void connect_watch_remove(struct connect_watch *watch)
{
    if (watch->link.next)
        list_unlink(&watch->link);
}

void connect_watch_wake_all(struct connect_service *service)
{
    call_watches(service, NULL);
}

void connect_forget(struct connect_service *service, struct uuid account_id, slice integration_id)
{
    char bytes[KEY_MAX];
    slice key = make_entry_key(bytes, &(struct wanted){account_id, integration_id, 0});
    cache_forget_group(&service->sets, slice_first(key, key.len - KEY_TAIL_LEN));
    call_watches(service, &account_id);
}

void connect_changed(struct connect_service *service, struct uuid account_id, slice integration_id)
{
    connect_forget(service, account_id, integration_id);
    if (service->config.on_changed)
        service->config.on_changed(service->config.owner, account_id, integration_id);
}

static bool is_of_account(const struct cache_entry *cached, const void *account_id)
{
    return memcmp(cached->key.ptr, account_id, sizeof(struct uuid)) == 0;
}

/* Walks all entries. Such changes are rare: a change of an app's connection names its app. The
 * secrets are dropped, too: the account may have been erased. */
void connect_forget_account(struct connect_service *service, struct uuid account_id)
{
    cache_forget_if(&service->sets, is_of_account, account_id.bytes);
    call_watches(service, &account_id);
}

void connect_forget_all(struct connect_service *service)
{
    cache_forget_if(&service->sets, NULL, NULL);
    call_watches(service, NULL);
}

/* ---- the state of a set ---- */

const char *connect_state_name(enum connect_state state)
{
    static const char *const names[] = {"connected", "not_connected", "reauth_required",
                                        "ambiguous"};
    ASSERT((size_t)state < ARRAY_LEN(names));
    return names[state];
}

/* The counts that determine the state, from either kind of row. */
struct tally {
    size_t live, known;
    bool has_default, is_default_live;
};

/* If there is a default, it alone decides, even if it needs a new grant: a call must not act as
 * another user of the app because the usual connection does not work. */
static enum connect_state tally_state_of(const struct tally *tally)
{
    if (tally->has_default)
        return tally->is_default_live ? CONNECT_CONNECTED : CONNECT_REAUTH_REQUIRED;
    if (tally->live > 1)
        return CONNECT_AMBIGUOUS;
    if (tally->live == 1)
        return CONNECT_CONNECTED;
    return tally->known > 0 ? CONNECT_REAUTH_REQUIRED : CONNECT_NOT_CONNECTED;
}

static void count_row(struct tally *tally, enum connection_status status, bool is_default)
{
    if (status == CONNECTION_REVOKED)
        return;
    ASSERT(status == CONNECTION_LIVE || status == CONNECTION_REAUTH_REQUIRED);
    tally->known++;
    tally->live += status == CONNECTION_LIVE;
    tally->has_default = tally->has_default || is_default;
    tally->is_default_live = tally->is_default_live || (is_default && status == CONNECTION_LIVE);
}

enum connect_state connect_set_state(const struct connect_set *set,
                                     const struct connect_item **chosen)
{
    struct tally tally = {0};
    /* *chosen may be set to a default that is not live: the state then shows this */
    *chosen = NULL;
    for (size_t i = 0; i < set->count; i++)
        count_row(&tally, set->items[i].status, set->items[i].is_default);
    enum connect_state state = tally_state_of(&tally);
    for (size_t i = 0; i < set->count; i++) {
        const struct connect_item *item = &set->items[i];
        bool is_wanted = tally.has_default ? item->is_default : item->status == CONNECTION_LIVE;
        if (is_wanted && state != CONNECT_AMBIGUOUS && !*chosen)
            *chosen = item;
    }
    return state;
}

enum connect_state connect_state_of(const struct connection_app *app)
{
    if (!app)
        return CONNECT_NOT_CONNECTED;
    return tally_state_of(&(struct tally){.live = app->live,
                                          .known = app->count,
                                          .has_default = app->has_default,
                                          .is_default_live = app->is_default_live});
}

const struct connection_app *connect_app_of(const struct connection_app *apps, size_t count,
                                            slice integration_id)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(apps[i].integration_id, integration_id))
            return &apps[i];
    return NULL;
}

enum connect_state connect_state_for(const struct catalog_integration *integration,
                                     const struct connection_app *apps, size_t count)
{
    if (integration->auth.kind == AUTH_NONE)
        return CONNECT_CONNECTED;
    return connect_state_of(connect_app_of(apps, count, integration->integration_id));
}

const bool *connect_connected_flags(struct arena *arena, const struct catalog *catalog,
                                    const struct connection_app *apps, size_t count)
{
    bool *connected = ARENA_ARRAY(arena, bool, catalog->integration_count + 1);
    if (!connected)
        return NULL;
    for (size_t i = 0; i < catalog->integration_count; i++)
        connected[i] = catalog->integrations[i]->auth.kind == AUTH_NONE;
    for (size_t i = 0; i < count; i++) {
        const struct catalog_integration *integration =
            catalog_find_integration(catalog, apps[i].integration_id, NULL);
        /* the catalog may no longer have the app */
        if (integration && connect_state_is_live(connect_state_of(&apps[i])))
            connected[integration->position] = true;
    }
    return connected;
}

/* ---- the apps of a user ---- */

void connect_apps_load(struct pg_pool *pool, struct connect_apps *apps, struct op *op,
                       struct uuid account_id, struct uuid parent_id)
{
    apps->is_of_user = !uuid_is_nil(parent_id);
    store_connection_apps(pool, &apps->own, op, account_id);
    if (apps->is_of_user)
        store_connection_shared_apps(pool, &apps->shared, op, parent_id);
}

int connect_apps_result(const struct connect_apps *apps, struct arena *arena,
                        struct connection_app **list, size_t *count)
{
    struct connection_app *shared = NULL;
    size_t shared_count = 0;
    int status = store_connection_apps_result(&apps->own, list, count);
    if (status != OK || !apps->is_of_user)
        return status;
    status = store_connection_apps_result(&apps->shared, &shared, &shared_count);
    if (status != OK || shared_count == 0)
        return status;
    struct connection_app *all = ARENA_ARRAY(arena, struct connection_app, *count + shared_count);
    if (!all)
        return ERR_NOMEM;
    size_t total = 0;
    for (size_t i = 0; i < *count; i++)
        if ((*list)[i].count > 0) /* not revoked ones alone */
            all[total++] = (*list)[i];
    size_t own_count = total;
    for (size_t i = 0; i < shared_count; i++) {
        bool is_needed = !connect_app_of(all, own_count, shared[i].integration_id) &&
                         connect_state_is_live(connect_state_of(&shared[i]));
        shared[i].is_shared = true;
        if (is_needed)
            all[total++] = shared[i];
    }
    *list = all;
    *count = total;
    return OK;
}
