/*
 * The cache of connections; see connect.h.
 *
 * An entry has the last set that was loaded for one (account, integration, connection), and the
 * load under way. At most one load runs for an entry; further lookups wait in its list.
 *
 * A set is used while its time runs and no change of the app's connections was counted since its
 * load began (epoch_of). The epoch is read before the query is sent, so rows from before a change
 * never pass for rows from after it. A load that a change overtakes is detached: the lookups that
 * wait for it get its rows, later ones start another load.
 *
 * Failures are not cached: the next lookup starts a new load.
 */
#include "connect/connect.h"

#include "base/mem.h"
#include "connect/internal.h"
#include "loop/op.h"

enum {
    CACHE_MAX_DEFAULT = 20000,
    TTL_MS_DEFAULT = 2000,
    TOKEN_TIMEOUT_MS_DEFAULT = 10000,
    USE_EVERY_MS_DEFAULT = 60000,
    KEY_HEAD_LEN = 16 + 8,       /* account, connection */
    KEY_MAX = KEY_HEAD_LEN + 64, /* integration; the catalog allows no longer id */
    SET_ARENA_BYTES_MAX = 4 * 1024 * 1024,
    LOAD_ARENA_BYTES_MAX = 8 * 1024 * 1024,
    TOKENS_ARENA_BYTES_MAX = 1024 * 1024,
};

struct load;

/* One (account, connection or 0 for the choice, integration): what is known, and the load under
 * way. */
struct entry {
    struct line line;        /* by these; in service->lru, most recently used first */
    uint32_t epoch;          /* the app's, when the load of `set` began */
    struct connect_set *set; /* NULL: nothing known */
    uint64_t fresh_until_ns;
    struct load *load; /* NULL: none under way */
};

struct load {
    struct op op;
    struct connect_service *service; /* NULL once the service has gone */
    struct entry *entry;             /* NULL once it was dropped, or its rows have changed */
    uint32_t epoch;                  /* the app's, when it began */
    struct uuid account_id;
    int64_t id; /* 0: the choice */
    char integration_id[64];
    size_t integration_len;
    struct list waiting; /* struct connect_lookup */
    struct pg_query query;
    struct list link; /* in service->loads */
};

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

/* Which tokens it holds. Parsed in an arena of its own: in the set's they would stay as plain text
 * for as long as the set is cached. false: no memory. */
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

/* A credential that does not open (its master key is not in this process's ring) is reported as
 * reauth_required. The row is left as it is: another process may still have the key. false: no
 * memory, which says nothing of the credential. */
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
        .status = row->status,
        .expires_at = row->expires_at,
        .updated_at = row->updated_at,
    };
    if (row->scopes.ptr)
        item->scopes = arena_dup(&set->arena, row->scopes);
    struct err err = {0};
    if (row->params.len > 0)
        item->params = json_parse(&set->arena, row->params, &json_limits_provider, &err);
    return err.code != ERR_NOMEM && open_credential(service, set, row, item);
}

static struct connect_set *make_set(struct connect_service *service, const struct load *load,
                                    const struct connection *rows, size_t count)
{
    struct connect_set *set = mem_zalloc(sizeof(*set));
    if (!set)
        return NULL;
    set->refs = 1;
    set->account_id = load->account_id;
    arena_init(&set->arena, SET_ARENA_BYTES_MAX);
    set->integration_id =
        arena_dup(&set->arena, slice_of(load->integration_id, load->integration_len));
    set->items = ARENA_ARRAY(&set->arena, struct connect_item, count + 1);
    bool is_ok = set->items != NULL;
    for (size_t i = 0; is_ok && i < count; i++)
        is_ok = fill_item(service, set, &rows[i], &set->items[set->count++]);
    if (is_ok && !set->arena.is_exhausted)
        return set;
    connect_set_unref(set);
    return NULL;
}

/* ---- entries ---- */

static size_t make_entry_key(char key[KEY_MAX], struct uuid account_id, int64_t id,
                             slice integration_id)
{
    ASSERT(integration_id.len <= KEY_MAX - KEY_HEAD_LEN);
    memcpy(key, account_id.bytes, 16);
    memcpy(key + 16, &id, sizeof(id));
    memcpy(key + KEY_HEAD_LEN, integration_id.ptr, integration_id.len);
    return KEY_HEAD_LEN + integration_id.len;
}

/* Counts the changes of the account's connections to the app: sets whose load began before the last
 * one are not used. The counters are a fixed table that a keyed hash indexes, so that it needs no
 * memory for apps without an entry; a change that shares a counter costs one query more. */
static uint32_t *epoch_of(struct connect_service *service, struct uuid account_id,
                          slice integration_id)
{
    char key[KEY_MAX];
    size_t len = make_entry_key(key, account_id, 0, integration_id);
    uint64_t hash = hash_siphash13((uint64_t[2]){service->jitter, 1}, key, len);
    return &service->epochs[hash % CONNECT_EPOCHS];
}

/* A load under way goes on for the lookups that wait for it, and its rows are not cached. */
static void drop_entry(struct connect_service *service, struct entry *entry)
{
    if (entry->load)
        entry->load->entry = NULL;
    connect_set_unref(entry->set);
    lines_drop(&service->entries, &entry->line);
}

static struct entry *make_entry(struct connect_service *service, slice key)
{
    if (service->entries.map.count >= service->config.cache_max && !list_is_empty(&service->lru))
        drop_entry(service, LIST_ITEM(service->lru.prev, struct entry, line.ring));
    struct entry *entry = lines_get(&service->entries, key);
    if (entry)
        list_push_front(&service->lru, &entry->line.ring);
    return entry;
}

/* ---- loads ---- */

static enum op_result step_load(struct op *op)
{
    struct load *load = CONTAINER_OF(op, struct load, op);
    if (!load->service) /* connect_free came first; no lookup waits any more */
        return OP_FAIL;
    struct pg_pool *pool = load->service->config.pool;
    if (load->id)
        store_connection_get(pool, &load->query, op, load->account_id, load->id);
    else
        store_connection_choice(pool, &load->query, op, load->account_id,
                                slice_of(load->integration_id, load->integration_len));
    return OP_WAIT;
}

static void answer_lookups(struct load *load, int status, struct connect_set *set)
{
    ASSERT((status == OK) == (set != NULL));
    LIST_EACH(&load->waiting, struct connect_lookup, lookup, link) {
        list_unlink(&lookup->link);
        lookup->status = status;
        lookup->set = set;
        if (set)
            set->refs++;
        struct op *op = lookup->op;
        lookup->op = NULL;
        op_release(op);
    }
}

/* store_connection_get finds a row by account and id alone. One of another app is no connection to
 * this one: the set is empty. */
static int read_rows(const struct load *load, struct connection **rows, size_t *count)
{
    int status = store_connection_list_result(&load->query, rows, count);
    slice integration_id = slice_of(load->integration_id, load->integration_len);
    if (status == OK && *count > 0 && !slice_eq((*rows)[0].integration_id, integration_id))
        *count = 0;
    return status;
}

static enum op_result step_answer(struct op *op)
{
    struct load *load = CONTAINER_OF(op, struct load, op);
    struct connect_service *service = load->service;
    struct connection *rows = NULL;
    size_t count = 0;
    if (!service)
        return OP_FAIL;
    int status = read_rows(load, &rows, &count);
    struct connect_set *set = status == OK ? make_set(service, load, rows, count) : NULL;
    if (status == OK && !set)
        status = ERR_NOMEM;
    struct entry *entry = load->entry;
    if (entry && set) {
        connect_set_unref(entry->set);
        entry->set = set;
        set->refs++;
        entry->epoch = load->epoch;
        entry->fresh_until_ns = loop_now_ns(service->loop) + service->ttl_ns;
    }
    answer_lookups(load, status, set); /* a reference for each lookup; the load's own goes now */
    connect_set_unref(set);
    return OP_DONE;
}

static void on_load_end(struct op *op, enum op_end end)
{
    struct load *load = CONTAINER_OF(op, struct load, op);
    (void)end;
    /* After step_answer none is left; after a cancel all are. */
    answer_lookups(load, ERR_CLOSED, NULL);
    if (load->entry)
        load->entry->load = NULL;
    load->entry = NULL;
    list_unlink(&load->link);
}

static const struct op_step load_steps[] = {
    {"load", step_load, 0},
    {"answer", step_answer, 0},
};
static const struct op_class load_class = {
    .name = "connect_load",
    OP_STEPS(load_steps),
    .on_end = on_load_end,
    .free = op_free_struct,
};

/* The rows have changed since the load began: it still answers the lookups that wait for it, which
 * began before the change was known here, and no later one. */
static void detach_load(struct entry *entry)
{
    ASSERT(!entry->load || entry->load->entry == entry);
    if (entry->load)
        entry->load->entry = NULL;
    entry->load = NULL;
}

static struct load *start_entry_load(struct connect_service *service, struct entry *entry,
                                     struct uuid account_id, slice integration_id, int64_t id)
{
    ASSERT(!entry->load); /* one at a time */
    struct load *load = mem_zalloc(sizeof(*load));
    if (!load)
        return NULL;
    load->service = service;
    load->entry = entry;
    load->account_id = account_id;
    load->id = id;
    load->epoch = *epoch_of(service, account_id, integration_id);
    memcpy(load->integration_id, integration_id.ptr, integration_id.len);
    load->integration_len = integration_id.len;
    list_init(&load->waiting);
    list_init(&load->link);
    list_push_back(&service->loads, &load->link);
    entry->load = load;
    op_start(&load->op, &load_class, service->loop, NULL, LOAD_ARENA_BYTES_MAX);
    return load;
}

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
    service->ttl_ns = (uint64_t)(config->ttl_ms ? config->ttl_ms : TTL_MS_DEFAULT) * 1000000;
    service->use_every_ns =
        (uint64_t)(config->use_every_ms ? config->use_every_ms : USE_EVERY_MS_DEFAULT) * 1000000;
    service->holder = uuid_v7();
    service->jitter = random_u64();
    lines_init(&service->entries, sizeof(struct entry));
    connect_renewals_init(service);
    list_init(&service->lru);
    list_init(&service->loads);
    connect_uses_init(service);
    return service;
}

size_t connect_kept_max(const struct connect_service *service)
{
    return service->config.kept_max;
}

slice connect_say_full(const struct connect_service *service, struct arena *arena)
{
    return arena_printf(arena,
                        "This account has as many connections as it may have (%zu): nothing was "
                        "connected. Remove one that is not used any more, or reconnect one.",
                        service->config.kept_max);
}

void connect_free(struct connect_service *service)
{
    if (!service)
        return;
    LIST_EACH(&service->loads, struct load, load, link) {
        ASSERT(list_is_empty(&load->waiting));
        load->service = NULL;
        op_cancel(&load->op);
    }
    while (!list_is_empty(&service->lru))
        drop_entry(service, LIST_ITEM(service->lru.next, struct entry, line.ring));
    while (list_pop_front(&service->loads))
        ; /* the ops end by themselves; their links must not point here */
    connect_renewals_free(service);
    connect_uses_free(service);
    lines_deinit(&service->entries);
    mem_free(service);
}

bool connect_find(struct connect_service *service, struct connect_lookup *lookup,
                  struct uuid account_id, slice integration_id, int64_t id, struct op *op)
{
    char bytes[KEY_MAX];
    slice key = slice_of(bytes, make_entry_key(bytes, account_id, id, integration_id));
    uint32_t epoch = *epoch_of(service, account_id, integration_id);
    *lookup = (struct connect_lookup){.status = ERR_NOMEM};
    list_init(&lookup->link);
    struct entry *entry = lines_find(&service->entries, key);
    if (entry && entry->set && entry->epoch == epoch &&
        loop_now_ns(service->loop) < entry->fresh_until_ns) {
        list_unlink(&entry->line.ring);
        list_push_front(&service->lru, &entry->line.ring);
        lookup->status = OK;
        lookup->set = entry->set;
        entry->set->refs++;
        return true;
    }
    if (!entry)
        entry = make_entry(service, key);
    if (!entry)
        return true; /* lookup->status is ERR_NOMEM, as set above */
    if (entry->load && entry->load->epoch != epoch)
        detach_load(entry);
    struct load *load = entry->load
                            ? entry->load
                            : start_entry_load(service, entry, account_id, integration_id, id);
    if (!load)
        return true;
    lookup->op = op;
    list_push_back(&load->waiting, &lookup->link);
    op_hold(op, "connections");
    return false;
}

void connect_find_cancel(struct connect_lookup *lookup)
{
    struct op *op = lookup->op;
    if (!op)
        return;
    list_unlink(&lookup->link);
    lookup->op = NULL;
    lookup->status = ERR_CLOSED;
    op_release(op);
}

/* For changes whose app is not known, so that no epoch can be moved. */
static void distrust(struct entry *entry)
{
    entry->fresh_until_ns = 0;
    detach_load(entry);
}

void connect_forget(struct connect_service *service, struct uuid account_id, slice integration_id)
{
    ++*epoch_of(service, account_id, integration_id);
}

void connect_changed(struct connect_service *service, struct uuid account_id, slice integration_id)
{
    connect_forget(service, account_id, integration_id);
    if (service->config.on_changed)
        service->config.on_changed(service->config.owner, account_id, integration_id);
}

/* Walks all entries. Such changes are rare: one of an app's connections comes with its app. */
void connect_forget_account(struct connect_service *service, struct uuid account_id)
{
    LIST_EACH(&service->lru, struct entry, entry, line.ring) {
        if (memcmp(entry->line.key, account_id.bytes, sizeof(account_id.bytes)) != 0)
            continue;
        distrust(entry);
        connect_set_unref(entry->set); /* its secrets, too: the account may be gone for ever */
        entry->set = NULL;
    }
}

void connect_forget_all(struct connect_service *service)
{
    LIST_EACH(&service->lru, struct entry, entry, line.ring)
        distrust(entry);
}

/* ---- what a set means ---- */

const char *connect_state_name(enum connect_state state)
{
    static const char *const names[] = {"connected", "not_connected", "reauth_required",
                                        "ambiguous"};
    ASSERT((size_t)state < ARRAY_LEN(names));
    return names[state];
}

/* The rule, over what both forms of a row have. */
struct tally {
    size_t live, known;
    bool has_default, is_default_live;
};

/* A default decides alone, also when it needs a new grant: a call must not act as another user of
 * the app because the usual connection is out of order. */
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
    *chosen = NULL; /* may become a default that is not live: the state then says so */
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
        /* the catalog may have dropped the app since it was connected */
        if (integration && connect_state_is_live(connect_state_of(&apps[i])))
            connected[integration->position] = true;
    }
    return connected;
}
