/*
 * See token.h. A list, since there are few tokens.
 */
#include "provider/token.h"

#include "base/map.h"
#include "base/mem.h"

struct tokens {
    struct token *items[TOKENS_MAX];
    size_t count;
    struct map by_text;
};

/* As --token takes them. */
static const char *const demo_tokens[] = {
    "gmail=ya29.demo-gmail-full",
    "gmail=ya29.demo-gmail-modify,modify",
    "gmail=ya29.demo-gmail-readonly,readonly",
    "gmail=ya29.demo-gmail-send,send",
    "gmail=ya29.demo-gmail-metadata,metadata",
    "gmail=ya29.demo-gmail-expired,expired",
    "notion=ntn_demo_notion",
    "notion=ntn_demo_notion_readonly,read,users",
    "notion=ntn_demo_notion_revoked,revoked",
};

static const struct {
    enum token_app app;
    const char *name;
    unsigned scope;
} scope_names[] = {
    {TOKEN_GMAIL, "full", SCOPE_FULL},
    {TOKEN_GMAIL, "modify", SCOPE_MODIFY},
    {TOKEN_GMAIL, "readonly", SCOPE_READONLY},
    {TOKEN_GMAIL, "compose", SCOPE_COMPOSE},
    {TOKEN_GMAIL, "send", SCOPE_SEND},
    {TOKEN_GMAIL, "labels", SCOPE_LABELS},
    {TOKEN_GMAIL, "metadata", SCOPE_METADATA},
    {TOKEN_GMAIL, "settings", SCOPE_SETTINGS},
    {TOKEN_GMAIL, "expired", SCOPE_EXPIRED},
    {TOKEN_NOTION, "read", SCOPE_READ_CONTENT},
    {TOKEN_NOTION, "insert", SCOPE_INSERT_CONTENT},
    {TOKEN_NOTION, "update", SCOPE_UPDATE_CONTENT},
    {TOKEN_NOTION, "comments", SCOPE_COMMENTS},
    {TOKEN_NOTION, "users", SCOPE_USERS},
    {TOKEN_NOTION, "revoked", SCOPE_EXPIRED},
};

static bool add(struct tokens *tokens, const struct token *model)
{
    if (tokens->count == TOKENS_MAX)
        return false;
    struct token *token = mem_alloc(sizeof(*token));
    if (!token)
        return false;
    *token = *model;
    void *old = NULL;
    if (map_put(&tokens->by_text, slice_of(token->text, token->len), token, &old) != OK) {
        mem_free(token);
        return false;
    }
    tokens->items[tokens->count++] = token;
    return true;
}

struct tokens *tokens_new(void)
{
    struct tokens *tokens = mem_zalloc(sizeof(*tokens));
    if (!tokens)
        return NULL;
    map_init(&tokens->by_text, TOKENS_MAX);
    for (size_t i = 0; i < ARRAY_LEN(demo_tokens); i++) {
        struct err err;
        if (tokens_add(tokens, slice_cstr(demo_tokens[i]), &err) != OK) {
            tokens_free(tokens);
            return NULL;
        }
    }
    return tokens;
}

void tokens_free(struct tokens *tokens)
{
    if (!tokens)
        return;
    for (size_t i = 0; i < tokens->count; i++)
        mem_free(tokens->items[i]);
    map_deinit(&tokens->by_text);
    mem_free(tokens);
}

static int read_scopes(struct token *token, slice names, struct err *err)
{
    while (names.len) {
        slice name = slice_split(&names, ',');
        unsigned found = 0;
        for (size_t i = 0; i < ARRAY_LEN(scope_names); i++)
            if (scope_names[i].app == token->app && slice_eq_cstr(name, scope_names[i].name))
                found = scope_names[i].scope;
        if (!found)
            return err_set(err, ERR_INVALID, "--token: no scope is called %.*s", SLICE_ARG(name));
        token->scopes |= found;
    }
    return OK;
}

int tokens_add(struct tokens *tokens, slice spec, struct err *err)
{
    slice rest = spec;
    slice app = slice_split(&rest, '=');
    slice text = slice_split(&rest, ',');
    struct token token = {.len = text.len};
    if (slice_eq(app, SLICE("notion")))
        token.app = TOKEN_NOTION;
    else if (!slice_eq(app, SLICE("gmail")))
        return err_set(err, ERR_INVALID, "--token must be gmail=TOKEN or notion=TOKEN");
    if (!text.len || text.len > TOKEN_TEXT_MAX)
        return err_set(err, ERR_INVALID, "--token: a token has 1 to %d characters", TOKEN_TEXT_MAX);
    memcpy(token.text, text.ptr, text.len);
    if (!rest.ptr)
        token.scopes = token.app == TOKEN_GMAIL ? SCOPE_FULL | SCOPE_SETTINGS : SCOPE_NOTION_ALL;
    else if (read_scopes(&token, rest, err) != OK)
        return err->code;
    return add(tokens, &token) ? OK : err_set(err, ERR_LIMIT, "too many tokens");
}

const struct token *tokens_find(const struct tokens *tokens, enum token_app app, slice text)
{
    const struct token *token = text.len ? map_get(&tokens->by_text, text) : NULL;
    bool is_good = token && token->app == app && !(token->scopes & SCOPE_EXPIRED);
    return is_good ? token : NULL;
}
