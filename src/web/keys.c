/*
 * API keys: the list over GET /api/keys, creating and revoking. A new key's text is drawn when the
 * form is rendered, and sealed into it: a second press or a reload makes no second key, and still
 * displays the first. The text is only on the page that replies to the form.
 *
 * A key never gets a right that the creator's own key does not have (vault/key.h).
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "vault/command.h"
#include "vault/key.h"
#include "web/app.h"
#include "web/once.h"

static const struct {
    enum api_key_scope scope;
    const char *field, *meaning;
} choices[] = {
    {SCOPE_READ, "scope.read", "read apps, executions and flows"},
    {SCOPE_EXECUTE, "scope.execute", "run actions, start flows, connect apps"},
    {SCOPE_EXECUTE_READ, "scope.execute:read", "run actions that change nothing"},
    {SCOPE_EXECUTE_WRITE, "scope.execute:write",
     "run actions that write, start flows, connect apps"},
    {SCOPE_APPROVE, "scope.approve", "approve or reject waiting steps"},
    {SCOPE_ADMIN, "scope.admin", "keys, connections, the audit trail"},
};

static const struct {
    const char *value, *label;
    int64_t days;
} lives[] = {
    {"30", "30 days", 30}, {"90", "90 days", 90}, {"365", "one year", 365}, {"never", "never", 0}};

enum {
    KEY_BYTES_MAX = 64 * 1024, /* of a key's JSON: few texts, all of them bounded */
    ONCE_KEY = 'k',
    ONCE_KEY_LEN = 1 + 16 + VAULT_KEY_LEN
};

/* How long the key is shown again to the sender of the same form: a browser that sends it twice
 * displays only the second answer. key.html mentions it. */
static const int64_t reveal_us = 60 * 1000000LL;
static const int64_t us_per_day = 86400LL * 1000000;

/* ---- what the pages have of a key ---- */

slice view_key_state(const struct json *key)
{
    int64_t expires_at;
    /* "revoked" takes precedence: such a key may have expired, too. */
    if (json_get_str(key, SLICE("revoked_at")).ptr)
        return SLICE("revoked");
    bool expires = time_parse(json_get_str(key, SLICE("expires_at")), &expires_at);
    return expires && expires_at <= clock_shared_us() ? SLICE("expired") : SLICE("valid");
}

/* The additions to a key of the API. */
static void put_key_more(struct web_request *request, struct json_writer *w, const struct json *key)
{
    const struct json *scopes = JSON_GET(key, "scopes");
    struct uuid id;
    bool is_own = uuid_parse(json_get_str(key, SLICE("id")), &id) &&
                  uuid_eq(id, request->serve.grant.key_id);
    json_member_str(w, "state", view_key_state(key));
    json_member_bool(w, "own", is_own);
    json_member_open(w, "may", '[');
    for (uint32_t i = 0; i < scopes->count; i++)
        for (size_t j = 0; j < ARRAY_LEN(choices); j++)
            if (slice_eq_cstr(json_str(&scopes->as.items[i]), scope_name(choices[j].scope)))
                view_choice(w, json_str(&scopes->as.items[i]), slice_cstr(choices[j].meaning));
    json_close(w, ']');
}

void view_key_page(struct web_request *request, struct json_writer *w, const struct json *key,
                   slice secret)
{
    view_members(w, key);
    put_key_more(request, w, key);
    json_member_str(w, "key", secret.ptr ? secret : SLICE("YOUR_KEY"));
    json_member_bool(w, "is_new", secret.ptr != NULL);
}

enum op_result web_key_refused(struct web_request *request, unsigned status,
                               const struct json *reply)
{
    return status == 404 ? web_reply_missing(request, "The account has no such key.")
                         : web_reply_refused(request, status, reply);
}

const struct web_view web_keys = {
    .file = "keys",
    .endpoint = &api_keys_list,
    .arguments = {{"cursor", .from = "after"}},
    .list = "items",
    .row = put_key_more,
};

/* ---- the form of a new key ---- */

/* Writes the key that the form will create: its id and its text, sealed. */
static void write_new_key(struct web_request *request, struct json_writer *w)
{
    struct vault_key fresh;
    struct uuid id = uuid_v7();
    char plain[ONCE_KEY_LEN] = {ONCE_KEY};
    vault_key_new(&fresh);
    memcpy(plain + 1, id.bytes, sizeof(id.bytes));
    memcpy(plain + 1 + sizeof(id.bytes), fresh.text, VAULT_KEY_LEN);
    once_view_field(request, slice_of(plain, sizeof(plain)), w);
    /* Until the form is sent, the text is only in the sealed field. */
    mem_wipe(plain, sizeof(plain));
    mem_wipe(&fresh, sizeof(fresh));
}

static void write_key_form(struct web_request *request, struct json_writer *w)
{
    /* The form of a key that reads has these scopes checked from the start. */
    const uint32_t reading = SCOPE_READ | SCOPE_EXECUTE_READ;
    bool reads_only = slice_eq_cstr(web_query(request, "for"), "reading") && !request->fields;
    write_new_key(request, w);
    json_member_str(w, "name", web_field(request, "name"));
    json_member_str(w, "expires", web_field(request, "expires"));
    json_member_str(w, "addresses", web_field(request, "addresses"));
    json_member_bool(w, "is_formless", web_field(request, "forms").ptr != NULL);
    json_member_str(w, "unattended_writes", web_field(request, "unattended_writes"));
    json_member_str(w, "policy", web_field(request, "policy"));
    json_member_bool(w, "may_allow", request->serve.grant.unattended < UNATTENDED_HELD);
    json_member_bool(w, "may_hold", request->serve.grant.unattended < UNATTENDED_REFUSED);
    json_member_open(w, "scopes", '[');
    for (size_t i = 0; i < ARRAY_LEN(choices); i++) {
        /* Only scopes that this session's key has are offered; begin_create checks it again. */
        if (choices[i].scope == SCOPE_EXECUTE || /* offered as its two parts */
            !serve_may(&request->serve, (uint32_t)choices[i].scope))
            continue;
        json_open(w, '{');
        json_member_str(w, "scope", slice_cstr(scope_name(choices[i].scope)));
        json_member_str(w, "meaning", slice_cstr(choices[i].meaning));
        bool is_preset = reads_only && ((uint32_t)choices[i].scope & ~reading) == 0;
        json_member_bool(w, "checked",
                         is_preset || web_field(request, choices[i].field).ptr != NULL);
        json_close(w, '}');
    }
    json_close(w, ']');
    json_member_open(w, "lives", '[');
    for (size_t i = 0; i < ARRAY_LEN(lives); i++) {
        json_open(w, '{');
        json_member_str(w, "value", slice_cstr(lives[i].value));
        json_member_str(w, "label", slice_cstr(lives[i].label));
        json_close(w, '}');
    }
    json_close(w, ']');
}

struct changing {
    struct vault_command command;
    struct vault_command_request in;
    slice text;    /* text of a new key, in the op's arena */
    slice problem; /* the fault of its form; SLICE_NONE if there is none */
};

/* The API refuses the list to a key with a policy of its own. */
static enum op_result on_policies(struct web_request *request, unsigned status,
                                  const struct json *reply)
{
    static const struct json nothing = {.type = JSON_ARRAY};
    const struct changing *it = request->state; /* NULL: the form was not sent */
    const struct json *policies = JSON_GET(reply, "items");
    slice problem = it ? it->problem : SLICE_NONE;
    bool is_faulty = problem.ptr || request->fault_count > 0;
    bool makes_none = request->serve.grant.policy.is_named;
    if (status != 200 && !makes_none)
        return web_reply_refused(request, status, reply);
    struct json_writer *w = view_begin(request);
    json_member_str(w, "problem",
                    makes_none ? SLICE("Your key has a policy of its own, so it makes no keys.")
                               : problem);
    write_key_form(request, w);
    json_key(w, "policies");
    json_put(w, policies ? policies : &nothing);
    return web_reply_view(request, is_faulty ? 400 : 200, "key_form");
}

enum op_result web_key_form(struct web_request *request)
{
    return web_ask(request, &api_policies_list, NULL, on_policies);
}

static enum op_result return_form(struct web_request *request, slice problem)
{
    struct changing *it = request->state;
    it->problem = problem;
    return web_key_form(request);
}

static enum op_result refuse_field(struct web_request *request, const char *field, slice text)
{
    web_fault_add(request, slice_cstr(field), text);
    return web_key_form(request);
}

/* ---- creating a key ---- */

static void on_create_end(struct web_request *request)
{
    const struct changing *it = request->state;
    ASSERT(it->text.len == VAULT_KEY_LEN);
    /* The reply has been written; the arena's copy of the key's text is wiped. */
    mem_wipe((char *)(uintptr_t)it->text.ptr, it->text.len);
}

static bool read_expiry(struct web_request *request, int64_t *expires_at)
{
    for (size_t i = 0; i < ARRAY_LEN(lives); i++)
        if (slice_eq_cstr(web_field(request, "expires"), lives[i].value)) {
            *expires_at = lives[i].days ? clock_shared_us() + lives[i].days * us_per_day : 0;
            return true;
        }
    return false;
}

static void read_limits(struct web_request *request, struct api_key *key)
{
    if (web_field(request, "policy").len > 0)
        key->policy = web_field(request, "policy");
    slice unattended = web_field(request, "unattended_writes");
    if (web_field(request, "forms").ptr)
        key->forms = SLICE("never");
    if (slice_has_word(SLICE("allow hold refuse"), unattended))
        key->unattended_writes = unattended;
}

/* Replies with the page of the key, which also has its text. */
static enum op_result reply_key(struct web_request *request, unsigned status,
                                const struct api_key *key)
{
    const struct changing *it = request->state;
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, KEY_BYTES_MAX);
    json_open(w, '{');
    api_key_put(w, key);
    json_close(w, '}');
    const struct json *made = json_parse(&request->serve.op.arena,
                                         json_text_take(&text, &request->serve.op.arena),
                                         &json_limits_provider, NULL);
    if (!made)
        return web_reply_database(request, ERR_NOMEM);
    request->holds_secret = true;
    w = view_begin(request);
    view_key_page(request, w, made, it->text);
    json_member_str(w, "use", SLICE_NONE);
    return web_reply_view(request, status, "key");
}

/* The form was sent before: the key exists, and a browser that sent the form twice has displayed
 * only the second answer. */
static enum op_result reply_repeated(struct web_request *request)
{
    const struct changing *it = request->state;
    struct api_key row;
    int status = store_api_key_find_result(&request->query, &row);
    if (status != OK && status != ERR_NOTFOUND)
        return web_reply_database(request, status);
    /* The key is found by its hash; its id proves that this form made it. If the form was
     * changed later, the key does not have those changes, but the reader would believe that it
     * does. */
    const struct api_key *key = &it->command.key;
    bool is_same = status == OK && uuid_eq(row.id, key->id) && slice_eq(row.name, key->name) &&
                   row.scopes == key->scopes && slice_eq(row.addresses, key->addresses) &&
                   slice_eq(row.forms, key->forms) && slice_eq(row.policy, key->policy) &&
                   slice_eq(row.unattended_writes, key->unattended_writes);
    if (is_same && !row.revoked_at && clock_shared_us() - row.created_at < reveal_us)
        return reply_key(request, 200, &row);
    return web_reply_problem(
        request, 409, "This key has already been created",
        "The form was sent twice, but only one key was created. It was displayed once, and its "
        "text is not stored. If you do not have it, revoke the key and create another.");
}

static enum op_result finish_create(struct web_request *request)
{
    const struct changing *it = request->state;
    op_keep_children(&request->serve.op);    /* they have texts of the key */
    if (it->command.status == ERR_INVALID) { /* a key with this id exists */
        store_api_key_find(request->web->config.pool, &request->query, &request->serve.op,
                           it->in.key.key.hash, NULL);
        return web_wait(request, reply_repeated);
    }
    if (it->command.status == ERR_REFUSED || it->command.status == ERR_LIMIT)
        return return_form(
            request, arena_printf(&request->serve.op.arena, "Refused: %s.", it->command.err.text));
    return it->command.status == OK ? reply_key(request, 201, &it->command.key)
                                    : web_reply_database(request, it->command.status);
}

enum op_result web_key_create(struct web_request *request)
{
    struct changing *it = web_state_new(request, sizeof(*it));
    /* on_create_end is set below, once there is a text to wipe. */
    if (!it)
        return OP_DONE;
    it->in = (struct vault_command_request){.kind = VAULT_KEY_CREATE,
                                            .by = serve_by(&request->serve),
                                            .maker = request->serve.grant,
                                            .key.key.account_id = request->session.account_id};
    struct api_key *key = &it->in.key.key;
    for (size_t i = 0; i < ARRAY_LEN(choices); i++)
        if (web_field(request, choices[i].field).ptr)
            key->scopes |= (uint32_t)choices[i].scope;
    key->name = web_field(request, "name");
    if (!slice_is_name(key->name, API_KEY_NAME_MAX))
        return refuse_field(request, "name",
                            SLICE("A key needs a name of at most 200 characters, on one line."));
    if (key->scopes == 0)
        return refuse_field(request, "scopes",
                            SLICE("Choose at least one of the scopes that your own key has."));
    if (!read_expiry(request, &key->expires_at))
        return refuse_field(request, "expires", SLICE("Choose when the key expires."));
    slice addresses = web_field(request, "addresses");
    struct err err;
    if (addresses.len > 0 &&
        vault_key_addresses(addresses, &request->serve.op.arena, &key->addresses, &err) != OK)
        return refuse_field(request, "addresses",
                            arena_printf(&request->serve.op.arena, "Refused: %s.", err.text));
    read_limits(request, key);
    slice once = once_read_field(request, ONCE_KEY);
    if (once.len != ONCE_KEY_LEN)
        return return_form(request,
                           SLICE("This form is too old, or from another session. No key was "
                                 "created. Check it and press the button again."));
    request->on_end = on_create_end;
    memcpy(key->id.bytes, once.ptr + 1, sizeof(key->id.bytes));
    it->text = slice_from(once, 1 + sizeof(key->id.bytes));
    /* The field was sealed by write_new_key, so it contains a well-formed key. */
    if (!vault_key_hash(it->text, key->hash))
        UNREACHABLE("the sealed field has a well-formed key");
    /* Only the prefix and the hash are stored. */
    key->prefix = slice_first(it->text, VAULT_KEY_PREFIX_LEN);
    key->created_at = clock_shared_us();
    vault_command_start(request->web->config.auth, &it->command, &it->in, &request->serve.op);
    return web_wait(request, finish_create);
}

/* ---- revoking ---- */

static enum op_result on_revoked(struct web_request *request, unsigned status,
                                 const struct json *reply)
{
    struct uuid id;
    if (status != 200)
        return web_key_refused(request, status, reply);
    /* The session's own key was revoked, so its cookie is cleared, too. */
    if (!web_path_uuid(request, 0, &id) || !uuid_eq(id, request->serve.grant.key_id))
        return web_reply_redirect(request, SLICE("/keys"), "key_revoked");
    web_clear_cookie(request);
    return web_reply_redirect(request, SLICE("/sign-in"), "own_key_revoked");
}

enum op_result web_key_revoke(struct web_request *request)
{
    return web_ask(request, &api_keys_revoke, NULL, on_revoked);
}
