/*
 * api_key: a caller's key, stored as its SHA-256 only. Lookup by hash is the only read that cannot
 * name its account.
 */
#ifndef STORE_API_KEY_H
#define STORE_API_KEY_H

#include "store/audit.h"

enum {
    API_KEY_HASH_LEN = 32,
    SESSION_HASH_LEN = 32,
    API_KEY_NAME_MAX = 200,
    API_KEY_ADDRESSES_MAX = 64,
    API_KEY_LIVE_MAX = 20000, /* an account's keys that are neither revoked nor expired */
};

enum api_key_scope {
    SCOPE_READ = 1,
    SCOPE_EXECUTE_READ = 2, /* run actions that change nothing */
    SCOPE_APPROVE = 4,
    SCOPE_ADMIN = 8,
    SCOPE_EXECUTE_WRITE = 16,
    SCOPE_EXECUTE = SCOPE_EXECUTE_READ | SCOPE_EXECUTE_WRITE,
    SCOPE_ALL = 31,
    SCOPE_OPERATOR = 32, /* of keys of the nil account alone: all accounts, and nothing of theirs */
};

struct api_key {
    struct uuid account_id, id;
    uint8_t hash[API_KEY_HASH_LEN];
    slice prefix; /* first characters of the key, to tell keys apart in lists */
    slice name;
    uint32_t scopes;    /* set of SCOPE_* */
    slice scopes_words; /* private to the store: the scopes as words, as stored in the table */
    slice addresses;    /* networks (base/ip.h), space-separated; SLICE_NONE: any */
    /* For /mcp: forms is "never" or SLICE_NONE; unattended_writes is "allow", "hold", "refuse" or
     * SLICE_NONE (sql/0042_hold.sql) */
    slice forms, unattended_writes;
    slice policy;       /* the name of its policy; SLICE_NONE: the account's default, if any */
    int64_t policy_rev; /* only set by find: for store_key_policy */
    /* The end user that it acts for, and the account's id for that user; nil and SLICE_NONE: it
     * acts for the account */
    struct uuid user_id;
    slice external_id;
    struct uuid made_by; /* the key that made it; nil: a command did, or it is not known */
    struct uuid line;    /* the first key that it was rolled from; its own id: it is the first */
    int64_t created_at, expires_at /* 0: never */, revoked_at /* 0: live */, last_used_at;
    int64_t ends_at; /* private to the store: expires_at of a key of a user or of the operator */
    /* only set by find */
    bool is_account_disabled, is_session_ended;
    int64_t sessions_ended_at; /* sessions that began before this time are ended; 0: none are */
};

/* Parses names of scopes ("read execute"), separated by spaces or commas. Returns ERR_INVALID if a
 * word is unknown, as "operator" is here; err names it. */
int scopes_parse(slice text, uint32_t *scopes, struct err *err) MUST_CHECK;
/* Writes the names separated by spaces, in a constant order; at most 47 bytes and a NUL. */
slice scopes_format(uint32_t scopes, char out[48]);
/* Returns "read" for SCOPE_READ, "execute" for both of its scopes ... */
const char *scope_name(enum api_key_scope scope);
/* Removes from the set the scopes of the next name, in the order of the text form, and returns
 * them. Returns 0 if none is left. */
uint32_t scopes_next(uint32_t *set);

/* session_hash: the hash of the dashboard session that the key opened; NULL: the key itself is
 * used. The result is ERR_NOTFOUND if there is no such key. Revoked and expired keys are returned:
 * the caller checks. */
void store_api_key_find(STORE_ARGS, const uint8_t hash[API_KEY_HASH_LEN],
                        const uint8_t session_hash[SESSION_HASH_LEN]);
int store_api_key_find_result(const struct pg_query *query, struct api_key *key) MUST_CHECK;
/* Records the use; the caller calls this at most once a minute for each key. Read the result with
 * store_done_result. */
void store_api_key_touch(STORE_ARGS, struct uuid account_id, struct uuid id, int64_t now);

/* Reads one key, revoked or not. Read the result with store_api_key_find_result. */
void store_api_key_get(STORE_ARGS, struct uuid account_id, struct uuid id);
/* Lists an account's keys, the newest first, from those with an id below `before`; nil: from the
 * newest. Read the result with store_api_key_list_result. */
void store_api_key_page(STORE_ARGS, struct uuid account_id, struct uuid before, size_t count_max);
/* Counts, up to 2, the live keys of the account, not of its users, that have the scope admin. Read
 * the result with store_count_result. */
void store_api_key_admins(STORE_ARGS, struct uuid account_id);
/* Lists one account's newest 1000 keys, the oldest of them first. */
void store_api_key_list(STORE_ARGS, struct uuid account_id);
int store_api_key_list_result(const struct pg_query *query, struct api_key **keys,
                              size_t *count) MUST_CHECK;
/* Reads the display name of a key, revoked or not: its name or, without a name, its first
 * characters. Read the result with store_text_result. */
void store_api_key_name(STORE_ARGS, struct uuid account_id, struct uuid id);
/* Reads whether a key counts as another one: it belongs to that one's line, or a key of that line
 * made it or its line, directly or through other keys. A key that does not exist counts as any.
 * Read the result with store_api_key_is_kin_result. */
void store_api_key_is_kin(STORE_ARGS, struct uuid account_id, struct uuid id, struct uuid other_id);
int store_api_key_is_kin_result(const struct pg_query *query, bool *is_kin) MUST_CHECK;
/* A change of a key, with its audit event. It is not replayed: the result is ERR_CLOSED if the
 * answer was lost. */
struct api_key_change {
    struct audit_by by;
    struct api_key key; /* a revocation uses only account_id and id */
    /* The key that makes it, and the account that has that key; nil: a command makes it */
    struct uuid maker_id, maker_account;
    struct uuid replaces;   /* the key that this key replaces; nil: none */
    int64_t replaced_until; /* when the replaced key ends, unless it would have ended earlier */
};
/* Creates the key, from all members except revoked_at and last_used_at. A key that replaces another
 * one does not count for API_KEY_LIVE_MAX. */
void store_api_key_create(STORE_ARGS, const struct api_key_change *change);
enum api_key_made {
    API_KEY_MADE,
    API_KEY_MAKER_OVER,    /* the key that makes it is revoked or has expired */
    API_KEY_REPLACED_OVER, /* the key to replace is, or does not exist */
    API_KEY_ROLLED,        /* a newer key of that key's line is live */
    API_KEY_NO_POLICY,     /* the account has no policy with the key's name for it */
    API_KEY_FULL,          /* the account has API_KEY_LIVE_MAX live keys */
};
/* Returns ERR_INVALID if a key has that id or hash or the account does not exist. If it returns OK,
 * *made says whether the key was made. */
int store_api_key_create_result(const struct pg_query *query, enum api_key_made *made) MUST_CHECK;
/* Revokes the key now, unless it is revoked already. Replayable. Read the result with
 * store_hit_result. */
void store_api_key_revoke(STORE_ARGS, const struct api_key_change *change);
/* Deletes the keys that act for a user. */
void store_api_keys_remove(STORE_ARGS, struct uuid account_id, struct uuid user_id);

/* Ends sessions that a key opened before their time: one session, which would have ended at
 * expires_at, or all that begin before `before`. Replayable. Read the result with
 * store_done_result. */
void store_session_end(STORE_ARGS, struct uuid account_id,
                       const uint8_t session_hash[SESSION_HASH_LEN], int64_t expires_at);
void store_sessions_end(STORE_ARGS, struct uuid account_id, struct uuid key_id, int64_t before);
/* Removes records of sessions that would have expired by now; at most 1000. Read the result with
 * store_done_result. */
void store_session_end_sweep(STORE_ARGS);

/* For operator commands: store_api_key_get and store_api_key_list. The former returns ERR_NOTFOUND,
 * with a message in err, if the account has no such key. */
int store_api_key_get_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                           struct uuid id, struct api_key *key, struct err *err) MUST_CHECK;
int store_api_key_list_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                            struct api_key **keys, size_t *count, struct err *err) MUST_CHECK;

#endif
