/*
 * GET and POST /api/keys, GET and DELETE /api/keys/{id}, POST /api/keys/{id}/roll (admin scope),
 * GET /api/keys/self (any key), and POST /api/accounts/{id}/keys (operator): API keys, the newest
 * first. The text of a key is only in the reply that makes it. What a key may give to another one
 * is decided in vault/key.h.
 */
#include "api/listing.h"
#include "base/clock.h"
#include "base/mem.h"
#include "policy/policy.h"
#include "vault/command.h"
#include "vault/key.h"

enum { PAGE_MAX = 100, OVERLAP_S = 24 * 60 * 60, OVERLAP_S_MAX = 7 * 24 * 60 * 60 };

/* ---- what a reply has of a key ---- */

void api_key_put(struct json_writer *w, const void *row)
{
    const struct api_key *key = row;
    char scopes[48];
    json_member_uuid(w, "id", key->id);
    json_member_str(w, "name", key->name);
    json_member_str(w, "prefix", key->prefix);
    json_member_words(w, "scopes", scopes_format(key->scopes, scopes));
    json_member_str(w, "user", key->external_id);
    json_member_words(w, "addresses", key->addresses);
    json_member_str(w, "forms", key->forms);
    json_member_str(w, "unattended_writes", key->unattended_writes);
    json_member_str(w, "policy", key->policy);
    listing_put_id(w, "made_by", key->made_by);
    json_member_uuid(w, "line", key->line);
    json_member_time(w, "created_at", key->created_at);
    json_member_time(w, "expires_at", key->expires_at);
    json_member_time(w, "revoked_at", key->revoked_at);
    json_member_time(w, "last_used_at", key->last_used_at);
}

/* ---- the list, and the key that asks ---- */

static const struct serve_filter filters[SERVE_FILTERS_MAX] = {LISTING_CURSOR};

static enum op_result finish_key_list(struct api_request *request)
{
    const struct serve_list *list = request->state;
    struct api_key *rows;
    size_t count;
    int status = store_api_key_list_result(&request->query, &rows, &count);
    if (status != OK)
        return api_reply_database(request, status);
    bool is_more = count > list->limit;
    count -= is_more;
    struct json_writer *w = listing_reply_open(request, rows, count, sizeof(*rows), api_key_put);
    listing_put_id(w, "next_cursor", is_more ? rows[count - 1].id : (struct uuid){{0}});
    return api_reply_close(request, 200);
}

static enum op_result begin_key_list(struct api_request *request)
{
    struct serve_list *list = request->state;
    if (!listing_read(request, list, filters, PAGE_MAX))
        return OP_DONE;
    /* one row more than requested shows whether there is another page */
    store_api_key_page(request->api->config.pool, &request->query, &request->serve.op,
                       request->serve.grant.account_id, list->page.before, list->limit + 1);
    return api_wait(request, finish_key_list);
}

const struct api_endpoint api_keys_list = {
    .scope = SCOPE_ADMIN,
    .query = &(const struct api_names){.own = {"limit", "cursor"}},
    .begin = begin_key_list,
    .is_of_account = true,
    .state_bytes = sizeof(struct serve_list),
};

#define NO_KEY "Key not found"

static enum op_result finish_key_get(struct api_request *request)
{
    struct api_key key;
    int status = store_api_key_find_result(&request->query, &key);
    if (status != OK)
        return api_reply_no_row(request, status, NO_KEY);
    api_key_put(api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX), &key);
    return api_reply_close(request, 200);
}

static enum op_result finish_self(struct api_request *request)
{
    return store_hit_result(&request->query) == ERR_NOTFOUND ? api_reply_key_refused(request)
                                                             : finish_key_get(request);
}

static enum op_result begin_self(struct api_request *request)
{
    store_api_key_get(request->api->config.pool, &request->query, &request->serve.op,
                      serve_payer(&request->serve), request->serve.grant.key_id);
    return api_wait(request, finish_self);
}

const struct api_endpoint api_keys_self = {
    .begin = begin_self,
    .is_of_account = true,
    .serves_user_keys = true,
};

/* ---- changes ---- */

struct changing {
    struct vault_command command;
    struct vault_command_request in;
    struct vault_key fresh;
    struct vault_user_check found;
    struct vault_user_create created;
};

static struct changing *change_key(struct api_request *request, enum vault_command_kind kind)
{
    struct changing *it = request->state;
    it->in.kind = kind;
    it->in.by = serve_by(&request->serve);
    it->in.maker = request->serve.grant;
    it->in.key.key.account_id = request->serve.grant.account_id;
    request->on_gone = api_continue;
    return it;
}

static enum op_result reply_key_failed(struct api_request *request)
{
    const struct changing *it = request->state;
    switch (it->command.status) {
    case ERR_REFUSED:
        return it->command.is_maker_over
                   ? api_reply_key_refused(request)
                   : api_reply_error(request, 403, "Refused: %s", it->command.err.text);
    case ERR_LIMIT:
        return api_reply_error(request, 409, "No key was made: %s", it->command.err.text);
    case ERR_INVALID: /* the account was erased at this moment */
        return api_reply_error(request, 404, "Account not found");
    case ERR_CLOSED:
        return api_reply_error(request, 500,
                               "The database's answer was lost, so the change may have been made. "
                               "List the keys before you try again, and revoke a new key whose "
                               "text you do not have.");
    default:
        return api_reply_no_row(request, it->command.status, NO_KEY);
    }
}

static enum op_result key_command(struct api_request *request, api_step *then)
{
    struct changing *it = request->state;
    vault_command_start(request->api->config.auth, &it->command, &it->in, &request->serve.op);
    return api_wait(request, then);
}

static enum op_result finish_made(struct api_request *request)
{
    struct changing *it = request->state;
    struct api_key *key = &it->command.key;
    op_keep_children(&request->serve.op); /* texts of the key are in the memory of that op */
    if (it->command.status != OK) {
        mem_wipe(&it->fresh, sizeof(it->fresh));
        return reply_key_failed(request);
    }
    struct json_writer *w = api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX);
    json_member_str(w, "key", slice_of(it->fresh.text, VAULT_KEY_LEN));
    api_key_put(w, key);
    mem_wipe(&it->fresh, sizeof(it->fresh));
    return api_reply_close(request, 201);
}

/* The text is drawn last, so that an error before leaves none in memory. */
static enum op_result draw_key(struct api_request *request)
{
    struct changing *it = request->state;
    struct api_key *key = &it->in.key.key;
    vault_key_new(&it->fresh);
    memcpy(key->hash, it->fresh.hash, sizeof(key->hash));
    key->prefix = arena_dup(&request->serve.op.arena, slice_cstr(it->fresh.prefix));
    key->id = uuid_v7();
    key->created_at = clock_shared_us();
    return key_command(request, finish_made);
}

/* ---- a new key ---- */

/* The readers of members answer with 400 and return false. */
static bool read_scopes(struct api_request *request, struct api_key *key)
{
    const struct json *scopes = JSON_GET(request->body, "scopes");
    struct err err = {.text = "it must be an array of the scopes that the key gets, such as "
                              "[\"read\", \"execute\"]"};
    bool is_right = json_is(scopes, JSON_ARRAY) && scopes->count > 0;
    for (uint32_t i = 0; is_right && i < scopes->count; i++) {
        uint32_t set = 0;
        slice word = json_str(&scopes->as.items[i]);
        is_right = word.ptr && scopes_parse(word, &set, &err) == OK;
        key->scopes |= set;
    }
    if (!is_right)
        (void)api_reply_error(request, 400, "scopes is wrong: %s", err.text);
    return is_right;
}

static bool read_addresses(struct api_request *request, struct api_key *key)
{
    const struct json *list = json_given(request->body, SLICE("addresses"));
    struct err err = {.text = "it must be an array of at least one address or network, such as "
                              "[\"10.1.0.0/16\"], or null"};
    struct buf text;
    if (!list)
        return true;
    bool is_right = json_is(list, JSON_ARRAY) && list->count > 0;
    buf_init(&text, SERVE_SMALL_BODY_BYTES);
    for (uint32_t i = 0; is_right && i < list->count; i++) {
        slice one = json_str(&list->as.items[i]);
        is_right = one.len > 0;
        buf_append(&text, one);
        buf_append_char(&text, ',');
    }
    if (is_right && !buf_is_ok(&text))
        is_right = err_set(&err, ERR_LIMIT, "the list is too long") == OK;
    is_right = is_right &&
               vault_key_addresses(slice_first(buf_slice(&text), text.len - 1),
                                   &request->serve.op.arena, &key->addresses, &err) == OK;
    buf_deinit(&text);
    if (!is_right)
        (void)api_reply_error(request, 400, "addresses is wrong: %s", err.text);
    return is_right;
}

static bool read_key_expiry(struct api_request *request, struct api_key *key)
{
    const struct json *at = json_given(request->body, SLICE("expires_at"));
    if (!at)
        return true;
    if (time_parse(json_str(at), &key->expires_at) && key->expires_at > clock_shared_us())
        return true;
    (void)api_reply_error(request, 400,
                          "expires_at must be a time in the future, such as "
                          "2031-01-31T00:00:00Z, or null");
    return false;
}

/* Reads a member that is null or one of these words. */
static bool read_mcp_word(struct api_request *request, const char *name, const char *words,
                          slice *value)
{
    const struct json *given = json_given(request->body, slice_cstr(name));
    *value = json_str(given);
    if (!given || (value->ptr && slice_has_word(slice_cstr(words), *value)))
        return true;
    (void)api_reply_error(request, 400, "%s must be one of: %s; or null", name, words);
    return false;
}

static bool read_key_policy(struct api_request *request, struct api_key *key)
{
    const struct json *name = json_given(request->body, SLICE("policy"));
    key->policy = json_str(name);
    if (!name || policy_is_name(key->policy))
        return true;
    (void)api_reply_error(request, 400,
                          "policy must be the name of one of the account's policies, or null for "
                          "the one that is named " POLICY_DEFAULT_NAME ", if there is one");
    return false;
}

/* Refuses a key that makes none, and scopes that it lacks, before a user is made; the op compares
 * the rest. */
static bool check_scopes(struct api_request *request, const struct api_key *key)
{
    const struct vault_grant *grant = &request->serve.grant;
    const struct api_key maker = {.scopes = grant->scopes,
                                  .policy = grant->policy.is_named ? slice_cstr(grant->policy.name)
                                                                   : SLICE_NONE};
    struct api_key wanted = {.scopes = key->scopes};
    struct err err;
    if ((maker.scopes & SCOPE_OPERATOR) || vault_key_limit(&wanted, &maker, &err) == OK)
        return true;
    (void)api_reply_error(request, 403, "Refused: %s", err.text);
    return false;
}

static enum op_result on_user_created(struct api_request *request)
{
    struct changing *it = request->state;
    if (it->created.status == ERR_LIMIT)
        return api_reply_error(request, 403, "This account has the maximum of %zu users",
                               vault_users_max(request->api->config.users));
    if (it->created.status != OK)
        return api_reply_database(request, it->created.status);
    if (it->created.erase_at)
        return api_reply_user_erased(request, it->created.erase_at);
    it->in.key.key.user_id = it->created.user_id;
    return draw_key(request);
}

static enum op_result on_user_found(struct api_request *request)
{
    struct changing *it = request->state;
    struct api_key *key = &it->in.key.key;
    if (it->found.status == OK && it->found.erase_at)
        return api_reply_user_erased(request, it->found.erase_at);
    if (it->found.status == OK) {
        key->user_id = it->found.user_id;
        return draw_key(request);
    }
    if (it->found.status != ERR_NOTFOUND)
        return api_reply_database(request, it->found.status);
    vault_user_create_start(request->api->config.users, &it->created, key->account_id,
                            key->external_id, uuid_v7(), &request->serve.op);
    return api_wait(request, on_user_created);
}

/* Creates the key, and before it the user for whom it acts, if the account does not have it. */
static enum op_result find_key_user(struct api_request *request)
{
    struct changing *it = request->state;
    const struct api_key *key = &it->in.key.key;
    if (!key->external_id.ptr)
        return draw_key(request);
    return vault_user_find(request->api->config.users, &it->found, key->account_id,
                           key->external_id, false, &request->serve.op)
               ? on_user_found(request)
               : api_wait(request, on_user_found);
}

/* Answers with 400 and returns false if the body describes no key. */
static bool read_new_key(struct api_request *request, struct api_key *key)
{
    const struct json *user = json_given(request->body, SLICE("user"));
    key->name = json_get_str(request->body, SLICE("name"));
    key->external_id = json_str(user);
    if (!slice_is_name(key->name, API_KEY_NAME_MAX)) {
        (void)api_reply_error(request, 400,
                              "name must be a string of 1 to %d characters on one line",
                              API_KEY_NAME_MAX);
        return false;
    }
    if (!read_scopes(request, key) || !read_key_expiry(request, key) ||
        !read_addresses(request, key) || !read_mcp_word(request, "forms", "never", &key->forms) ||
        !read_mcp_word(request, "unattended_writes", "allow hold refuse",
                       &key->unattended_writes) ||
        !read_key_policy(request, key))
        return false;
    if (!user || vault_user_is_id(key->external_id))
        return check_scopes(request, key);
    (void)api_reply_error(request, 400,
                          "user must be a user's id, 1 to %d characters from ! to ~, or null",
                          ACCOUNT_USER_ID_MAX);
    return false;
}

static enum op_result begin_create(struct api_request *request)
{
    struct changing *it = change_key(request, VAULT_KEY_CREATE);
    return read_new_key(request, &it->in.key.key) ? find_key_user(request) : OP_DONE;
}

static const struct api_names new_key_members = {
    .own = {"name", "scopes", "expires_at", "addresses", "user", "forms", "unattended_writes",
            "policy"},
    .other = {{"user_id", "user"}, {"external_user_id", "user"}, {"sluice_user", "user"}}};

const struct api_endpoint api_keys_create = {
    .scope = SCOPE_ADMIN,
    .body = API_BODY_REQUIRED,
    .members = &new_key_members,
    .begin = begin_create,
    .is_of_account = true,
    .state_bytes = sizeof(struct changing),
};

/* ---- a key of any account, for the operator ---- */

#define NO_ACCOUNT "Account not found"

/* A user is not made for an account that does not exist. */
static enum op_result on_account_found(struct api_request *request)
{
    struct account account;
    int status = store_account_get_result(&request->query, &account);
    if (status == OK && account.erase_at)
        return api_reply_error(request, 409, "No key was made: the account is being erased");
    if (status == OK)
        return find_key_user(request);
    return api_reply_no_row(request, status, NO_ACCOUNT);
}

static enum op_result begin_account_key(struct api_request *request)
{
    struct changing *it = change_key(request, VAULT_KEY_CREATE);
    struct uuid *id = &it->in.key.key.account_id;
    if (!uuid_parse(request->serve.match.params[0], id) || uuid_is_nil(*id))
        return api_reply_error(request, 404, NO_ACCOUNT);
    if (!read_new_key(request, &it->in.key.key))
        return OP_DONE;
    store_account_get(request->api->config.pool, &request->query, &request->serve.op, *id);
    return api_wait(request, on_account_found);
}

const struct api_endpoint api_accounts_key_create = {
    .scope = SCOPE_OPERATOR,
    .body = API_BODY_REQUIRED,
    .members = &new_key_members,
    .begin = begin_account_key,
    .is_of_account = true,
    .state_bytes = sizeof(struct changing),
};

/* ---- a key of the path ---- */

static bool read_key_id(struct api_request *request, struct uuid *id)
{
    if (uuid_parse(request->serve.match.params[0], id))
        return true;
    (void)api_reply_error(request, 404, NO_KEY);
    return false;
}

static enum op_result begin_key_get(struct api_request *request)
{
    struct uuid id;
    if (!read_key_id(request, &id))
        return OP_DONE;
    store_api_key_get(request->api->config.pool, &request->query, &request->serve.op,
                      request->serve.grant.account_id, id);
    return api_wait(request, finish_key_get);
}

const struct api_endpoint api_keys_get = {
    .scope = SCOPE_ADMIN,
    .begin = begin_key_get,
    .is_of_account = true,
};

static enum op_result begin_roll(struct api_request *request)
{
    struct changing *it = change_key(request, VAULT_KEY_ROLL);
    const struct json *overlap = json_given(request->body, SLICE("overlap"));
    int64_t seconds = OVERLAP_S;
    if (!read_key_id(request, &it->in.key.replaces))
        return OP_DONE;
    if (overlap && (!json_to_i64(overlap, &seconds) || seconds < 0 || seconds > OVERLAP_S_MAX))
        return api_reply_error(request, 400,
                               "overlap must be a number of seconds from 0 to %d: how long the old "
                               "key is still accepted",
                               OVERLAP_S_MAX);
    it->in.key.replaced_until = clock_shared_us() + seconds * 1000000;
    return draw_key(request);
}

const struct api_endpoint api_keys_roll = {
    .scope = SCOPE_ADMIN,
    .body = API_BODY_OPTIONAL,
    .members = &(const struct api_names){.own = {"overlap"}},
    .begin = begin_roll,
    .is_of_account = true,
    .state_bytes = sizeof(struct changing),
};

static enum op_result finish_key_revoke(struct api_request *request)
{
    const struct changing *it = request->state;
    return it->command.status == OK ? api_reply(request, 200, SLICE("{\"success\":true}"))
                                    : reply_key_failed(request);
}

static enum op_result begin_revoke(struct api_request *request)
{
    struct changing *it = change_key(request, VAULT_KEY_REVOKE);
    return read_key_id(request, &it->in.key.key.id) ? key_command(request, finish_key_revoke)
                                                    : OP_DONE;
}

const struct api_endpoint api_keys_revoke = {
    .scope = SCOPE_ADMIN,
    .begin = begin_revoke,
    .is_of_account = true,
    .state_bytes = sizeof(struct changing),
};
