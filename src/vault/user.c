/*
 * The cache of users (loop/cache.h), keyed by the account's id and the user's external id, so that
 * the same external id of two accounts is two entries. Concurrent requests of one user share a
 * query.
 */
#include "vault/user.h"

#include "base/clock.h"
#include "base/mem.h"
#include "store/api_key.h"

enum {
    USERS_MAX = 1000 * 1000,
    CACHE_MAX = 50000,
    TTL_MS = 30000,
    FIND_ARENA_BYTES_MAX = 64 * 1024,
    COUNT_ARENA_BYTES_MAX = 64 * 1024,
    CREATE_ARENA_BYTES_MAX = 64 * 1024,
    ACCOUNTS_MAX = 1000,
    CHANGE_ARENA_BYTES_MAX = 64 * 1024,
    NOTES_MAX = 1000, /* under way; beyond that, a request after the user's next load is noted */
    /* A process creates up to this part of the room that it has counted before it counts again. In
     * less room each creation counts. */
    ROOM_PART = 16,
    KEY_BYTES_MAX = 16 + ACCOUNT_USER_ID_MAX,
};

struct entry {
    struct cache_entry cached; /* its key: 16 bytes of the account's id, then the external id */
    int status;
    struct uuid user_id;
    int64_t erase_at;
    bool is_unnoted; /* the row's time is old, and no request has been noted since the load */
};

struct load {
    struct cache_load under;
    struct pg_query query;
};

/* What this process may create in an account: the cache's values by the account's id. */
struct room {
    struct cache_entry cached;
    int status;
    size_t uncounted; /* creations before the next count */
    bool is_small;    /* each creation counts */
    bool is_full;
};

struct count {
    struct cache_load under;
    struct pg_query query;
};

struct vault_users {
    struct vault_users_config config;
    struct cache cache, rooms;
    struct store_laters notes; /* of last requests */
};

static struct load *load_of(struct cache_load *under)
{
    return CONTAINER_OF(under, struct load, under);
}

static void load_user(struct cache_load *under)
{
    struct vault_users *users = CONTAINER_OF(under->cache, struct vault_users, cache);
    slice key = under->entry->key;
    struct uuid account_id;
    ASSERT(key.len > sizeof(account_id.bytes));
    memcpy(account_id.bytes, key.ptr, sizeof(account_id.bytes));
    store_account_user_find(users->config.pool, &load_of(under)->query, &under->op, account_id,
                            slice_from(key, sizeof(account_id.bytes)));
}

/* ---- the last request ---- */

struct note {
    struct store_later later;
    struct uuid account_id;
    slice external_id; /* in the op's arena */
};

static void send_note(struct store_later *later)
{
    const struct note *note = CONTAINER_OF(later, struct note, later);
    store_account_user_request(later->laters->pool, &later->query, &later->op, note->account_id,
                               note->external_id);
}

void vault_user_note(struct store_laters *laters, struct uuid account_id, slice external_id)
{
    static const struct store_later_class note_class = {
        STORE_LATER(store_later_once, "user_request", struct note),
        .send = send_note,
        .failure = "the time of a user's last request was not written",
    };
    struct note *note = store_later(laters, &note_class, NULL, ACCOUNT_USER_ID_MAX);
    if (!note)
        return;
    note->account_id = account_id;
    note->external_id = arena_dup(&note->later.op.arena, external_id);
}

/* Each load shows how old the row's time is, and the first request after it writes the time. A note
 * that cannot be made is made after the next load. */
static void note_request(struct vault_users *users, struct cache_entry *cached)
{
    struct entry *entry = CONTAINER_OF(cached, struct entry, cached);
    if (!entry->is_unnoted)
        return;
    entry->is_unnoted = false;
    struct uuid account_id;
    memcpy(account_id.bytes, cached->key.ptr, sizeof(account_id.bytes));
    vault_user_note(&users->notes, account_id, slice_from(cached->key, sizeof(account_id.bytes)));
}

/* A user that does not exist may be created at any moment, and one that is being erased may be
 * created again, so only the present waits get that answer. */
static uint64_t user_loaded(struct cache_load *under)
{
    const struct vault_users *users = CONTAINER_OF(under->cache, struct vault_users, cache);
    struct entry *entry = CONTAINER_OF(under->entry, struct entry, cached);
    struct account_user user;
    entry->status = store_account_user_result(&load_of(under)->query, &user);
    if (entry->status != OK)
        return 0;
    entry->user_id = user.user_id;
    entry->erase_at = user.erase_at;
    if (user.erase_at)
        return 0;
    entry->is_unnoted = clock_shared_us() - user.last_request_at >=
                        (int64_t)ACCOUNT_USER_REQUEST_S * 1000000;
    return users->config.ttl_ms;
}

static void answer_check(struct vault_user_check *check, const struct cache_entry *cached)
{
    const struct entry *entry = CONTAINER_OF(cached, const struct entry, cached);
    check->status = entry->status;
    check->user_id = entry->user_id;
    check->erase_at = entry->erase_at;
}

static void on_user_loaded(struct cache_wait *wait, const struct cache_entry *cached)
{
    struct vault_user_check *check = CONTAINER_OF(wait, struct vault_user_check, wait);
    struct cache_entry *kept = check->noting ? cache_peek(&check->noting->cache, cached->key)
                                             : NULL;
    answer_check(check, cached);
    if (kept)
        note_request(check->noting, kept);
}

static void drop_user(struct cache_entry *cached)
{
    (void)cached; /* neither a user nor a room owns anything */
}

static const struct cache_class user_class = {
    CACHE_LOAD("user_find", struct entry, struct load),
    .arena_bytes_max = FIND_ARENA_BYTES_MAX,
    .load = load_user,
    .loaded = user_loaded,
    .answer = on_user_loaded,
    .drop = drop_user,
};

bool vault_user_find(struct vault_users *users, struct vault_user_check *check,
                     struct uuid account_id, slice external_id, bool is_request, struct op *op)
{
    char room[KEY_BYTES_MAX];
    ASSERT(external_id.len > 0 && external_id.len <= ACCOUNT_USER_ID_MAX);
    slice key = SLICE_JOIN(room, uuid_slice(&account_id), external_id);
    /* the status until the answer arrives, and if the check is cancelled */
    *check = (struct vault_user_check){.status = ERR_CLOSED, .noting = is_request ? users : NULL};
    struct cache_entry *cached = cache_find(&users->cache, key);
    if (cached) {
        answer_check(check, cached);
        if (is_request)
            note_request(users, cached);
        return true;
    }
    if (cache_await(&users->cache, key, &check->wait, op))
        return false;
    check->status = ERR_BUSY;
    return true;
}

/* ---- the room of an account ---- */

static struct count *count_of(struct cache_load *under)
{
    return CONTAINER_OF(under, struct count, under);
}

static void load_room(struct cache_load *under)
{
    struct vault_users *users = CONTAINER_OF(under->cache, struct vault_users, rooms);
    struct uuid account_id;
    ASSERT(under->entry->key.len == sizeof(account_id.bytes));
    memcpy(account_id.bytes, under->entry->key.ptr, sizeof(account_id.bytes));
    store_account_user_count(users->config.pool, &count_of(under)->query, &under->op, account_id,
                             users->config.users_max);
}

/* A failed count is not kept: the creations that wait for it fail, and the next one counts. */
static uint64_t room_loaded(struct cache_load *under)
{
    struct vault_users *users = CONTAINER_OF(under->cache, struct vault_users, rooms);
    struct room *room = CONTAINER_OF(under->entry, struct room, cached);
    size_t count = 0;
    room->status = store_count_result(&count_of(under)->query, &count);
    size_t left = count < users->config.users_max ? users->config.users_max - count : 0;
    room->uncounted = left / ROOM_PART < VAULT_USERS_UNCOUNTED_MAX ? left / ROOM_PART
                                                                   : VAULT_USERS_UNCOUNTED_MAX;
    room->is_small = room->uncounted == 0;
    room->is_full = left == 0;
    return room->status == OK ? users->config.ttl_ms : 0;
}

OP_OF(create_of, vault_user_create)

static void on_room_loaded(struct cache_wait *wait, const struct cache_entry *cached)
{
    CONTAINER_OF(wait, struct vault_user_create, wait)->status =
        CONTAINER_OF(cached, const struct room, cached)->status;
}

static const struct cache_class room_class = {
    CACHE_LOAD("user_count", struct room, struct count),
    .arena_bytes_max = COUNT_ARENA_BYTES_MAX,
    .load = load_room,
    .loaded = room_loaded,
    .answer = on_room_loaded,
    .drop = drop_user,
};

/* ---- creation ---- */

enum { CHECK_ROOM, CHECK_COUNT, CREATE, CREATED };

/* In a small room the statement that creates also counts, so the next step is skipped. */
static enum op_result create_last(struct vault_user_create *create)
{
    const struct vault_users_config *config = &create->users->config;
    store_account_user_create_last(config->pool, &create->query, &create->op, create->account_id,
                                   create->external_id, create->user_id, config->users_max);
    return op_wait_then(&create->op, CREATED);
}

/* A room that is used up is dropped, so that those that come meanwhile wait for the same count. */
static enum op_result step_check_room(struct op *op)
{
    struct vault_user_create *create = create_of(op);
    struct cache *rooms = &create->users->rooms;
    slice key = uuid_slice(&create->account_id);
    struct cache_entry *cached = cache_find(rooms, key);
    struct room *room = cached ? CONTAINER_OF(cached, struct room, cached) : NULL;
    if (room && room->is_full) {
        create->status = ERR_LIMIT;
        return OP_DONE;
    }
    if (room && room->is_small)
        return create_last(create);
    if (room && room->uncounted > 0) {
        room->uncounted--;
        return op_jump(op, CREATE);
    }
    if (room)
        cache_forget(rooms, cached);
    if (cache_await(rooms, key, &create->wait, op))
        return OP_WAIT;
    create->status = ERR_BUSY;
    return OP_DONE;
}

/* All that waited for a count go on from here in turn, and may use it up. */
static enum op_result step_check_count(struct op *op)
{
    return create_of(op)->status == OK ? op_jump(op, CHECK_ROOM) : OP_DONE;
}

/* The room was reserved: it is not given back if the statement fails, which only counts earlier. */
static enum op_result step_create(struct op *op)
{
    struct vault_user_create *create = create_of(op);
    store_account_user_create(create->users->config.pool, &create->query, op, create->account_id,
                              create->external_id, create->user_id);
    return OP_WAIT;
}

/* No row is returned if the account is full. A user that another request has created at the same
 * time is returned in any case. */
static enum op_result step_created(struct op *op)
{
    struct vault_user_create *create = create_of(op);
    struct account_user user;
    create->status = store_account_user_result(&create->query, &user);
    if (create->status == OK) {
        create->user_id = user.user_id;
        create->erase_at = user.erase_at;
    }
    if (create->status != ERR_NOTFOUND)
        return OP_DONE;
    create->status = ERR_LIMIT;
    struct cache_entry *cached = cache_find(&create->users->rooms, uuid_slice(&create->account_id));
    if (cached) /* the next ones are refused without a count */
        CONTAINER_OF(cached, struct room, cached)->is_full = true;
    return OP_DONE;
}

static const struct op_step steps[] = {
    [CHECK_ROOM] = {"check_room", step_check_room, OP_TO(CREATE) | OP_TO(CREATED)},
    [CHECK_COUNT] = {"check_count", step_check_count, OP_TO(CHECK_ROOM)},
    [CREATE] = {"create", step_create, 0},
    [CREATED] = {"created", step_created, 0}};
static const struct op_class create_class = {.name = "user_create", OP_STEPS(steps)};

void vault_user_create_start(struct vault_users *users, struct vault_user_create *create,
                             struct uuid account_id, slice external_id, struct uuid proposed,
                             struct op *parent)
{
    ASSERT(parent && !uuid_is_nil(account_id) && !uuid_is_nil(proposed));
    *create = (struct vault_user_create){
        .status = ERR_CLOSED,
        .user_id = proposed,
        .users = users,
        .account_id = account_id,
        .external_id = external_id,
    };
    op_start(&create->op, &create_class, parent->loop, parent, CREATE_ARENA_BYTES_MAX);
}

/* ---- its label ---- */

OP_OF(label_of, vault_user_label)

static enum op_result step_label(struct op *op)
{
    struct vault_user_label *label = label_of(op);
    store_account_user_label(label->users->config.pool, &label->query, op, label->account_id,
                             label->external_id, label->label);
    return OP_WAIT;
}

/* No row is returned if the user does not exist. Labels are not cached. */
static enum op_result step_labelled(struct op *op)
{
    struct vault_user_label *label = label_of(op);
    label->status = store_account_user_result(&label->query, &label->user);
    return OP_DONE;
}

static const struct op_step label_steps[] = {{"label", step_label, 0},
                                             {"labelled", step_labelled, 0}};
static const struct op_class label_class = {.name = "user_label", OP_STEPS(label_steps)};

void vault_user_label_start(struct vault_users *users, struct vault_user_label *label,
                            struct uuid account_id, slice external_id, slice text,
                            struct op *parent)
{
    ASSERT(parent && vault_user_is_id(external_id));
    *label = (struct vault_user_label){
        .status = ERR_CLOSED,
        .users = users,
        .account_id = account_id,
        .external_id = external_id,
        .label = text,
    };
    op_start(&label->op, &label_class, parent->loop, parent, CHANGE_ARENA_BYTES_MAX);
}

/* ---- its erasure ---- */

OP_OF(erase_of, vault_user_erase)

static enum op_result step_erase(struct op *op)
{
    struct vault_user_erase *erase = erase_of(op);
    store_account_user_erase(erase->users->config.pool, &erase->query, op, &erase->change);
    return OP_WAIT;
}

/* The keys follow in a statement of their own: on a cluster, they are on all nodes, and the user on
 * one. */
static enum op_result step_erased(struct op *op)
{
    struct vault_user_erase *erase = erase_of(op);
    struct vault_users *users = erase->users;
    erase->status = store_account_user_result(&erase->query, &erase->user);
    if (erase->status != OK)
        return OP_DONE;
    store_api_keys_remove(users->config.pool, &erase->query, op, erase->user.account_id,
                          erase->user.user_id);
    return OP_WAIT;
}

/* If the keys could not be removed, the caller learns that: a repetition removes them, as the first
 * pass over the user does. */
static enum op_result step_keys_ended(struct op *op)
{
    struct vault_user_erase *erase = erase_of(op);
    struct vault_users *users = erase->users;
    erase->status = store_done_result(&erase->query);
    vault_users_forget(users, erase->user.account_id, erase->user.external_id);
    if (users->config.on_erasing)
        users->config.on_erasing(users->config.owner, &erase->user);
    return OP_DONE;
}

static const struct op_step erase_steps[] = {
    {"erase", step_erase, 0}, {"erased", step_erased, 0}, {"keys_ended", step_keys_ended, 0}};
static const struct op_class erase_class = {.name = "user_erase", OP_STEPS(erase_steps)};

void vault_user_erase_start(struct vault_users *users, struct vault_user_erase *erase,
                            struct uuid account_id, slice external_id, const struct audit_by *by,
                            struct op *parent)
{
    ASSERT(parent && vault_user_is_id(external_id) && uuid_is_nil(by->parent_id));
    *erase = (struct vault_user_erase){
        .status = ERR_CLOSED,
        .users = users,
        .change = {.account_id = account_id, .external_id = external_id, .by = *by},
    };
    op_start(&erase->op, &erase_class, parent->loop, parent, CHANGE_ARENA_BYTES_MAX);
}

/* ---- life ---- */

void vault_users_forget(struct vault_users *users, struct uuid account_id, slice external_id)
{
    char room[KEY_BYTES_MAX];
    if (!external_id.ptr) {
        cache_forget_if(&users->cache, NULL, NULL);
        return;
    }
    struct cache_entry *cached =
        cache_peek(&users->cache, SLICE_JOIN(room, uuid_slice(&account_id), external_id));
    if (cached)
        cache_forget(&users->cache, cached);
}

bool vault_user_is_id(slice id)
{
    for (size_t i = 0; i < id.len; i++)
        if (id.ptr[i] < '!' || id.ptr[i] > '~')
            return false;
    return id.len > 0 && id.len <= ACCOUNT_USER_ID_MAX;
}

uint64_t vault_users_erase_wait_ms(const struct vault_users *users)
{
    return users->config.erase_wait_ms;
}

size_t vault_users_max(const struct vault_users *users)
{
    return users->config.users_max;
}

struct vault_users *vault_users_new(struct loop *loop, const struct vault_users_config *config)
{
    struct vault_users *users = mem_zalloc(sizeof(*users));
    if (!users)
        return NULL;
    users->config = *config;
    DEFAULT_TO(users->config.users_max, USERS_MAX);
    DEFAULT_TO(users->config.cache_max, CACHE_MAX);
    DEFAULT_TO(users->config.ttl_ms, TTL_MS);
    cache_init(&users->cache, &user_class, loop, users->config.cache_max);
    store_laters_init(&users->notes, loop, config->pool, NOTES_MAX);
    cache_init(&users->rooms, &room_class, loop, ACCOUNTS_MAX);
    return users;
}

void vault_users_free(struct vault_users *users)
{
    if (!users)
        return;
    cache_deinit(&users->cache);
    cache_deinit(&users->rooms);
    store_laters_deinit(&users->notes);
    mem_free(users);
}
