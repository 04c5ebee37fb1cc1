/*
 * See token.h. Tokens are in a list, since there are few.
 */
#include "provider/token.h"

#include "base/mem.h"

struct tokens {
    struct arena arena;
    struct token items[TOKENS_MAX];
    size_t count;
};

/* The demo tokens, in the form of --token. */
static const char *const demo_tokens[] = {
    "gmail=ya29.demo-gmail-full",
    "gmail=ya29.demo-gmail-modify,modify",
    "gmail=ya29.demo-gmail-readonly,readonly",
    "gmail=ya29.demo-gmail-send,send",
    "gmail=ya29.demo-gmail-expired,expired",
    "notion=ntn_demo_notion",
    "notion=ntn_demo_notion_readonly,read,users",
    "notion=ntn_demo_notion_revoked,revoked",
};

static const struct {
    /* scopes: all that the app knows; all: the scopes of a token that names none */
    const char *app, *scopes, *all;
} apps[] = {
    {"gmail", "full modify readonly compose send labels settings expired", "full,settings"},
    {"notion", "read insert update comments users revoked", "read,insert,update,comments,users"},
};

struct tokens *tokens_new(void)
{
    struct tokens *tokens = mem_zalloc(sizeof(*tokens));
    struct err err;
    ASSERT(tokens);
    arena_init(&tokens->arena, TOKENS_MAX * (TOKEN_TEXT_MAX + TOKEN_SCOPES_MAX + 100));
    for (size_t i = 0; i < ARRAY_LEN(demo_tokens); i++)
        ASSERT(tokens_add(tokens, slice_cstr(demo_tokens[i]), &err) == OK);
    return tokens;
}

void tokens_free(struct tokens *tokens)
{
    arena_deinit(&tokens->arena);
    mem_free(tokens);
}

int tokens_add(struct tokens *tokens, slice spec, struct err *err)
{
    slice rest = arena_dup(&tokens->arena, spec);
    slice app = slice_split(&rest, '='), text = slice_split(&rest, ',');
    size_t i = slice_eq(app, SLICE("notion"));
    if (!slice_eq_cstr(app, apps[i].app))
        return err_set(err, ERR_INVALID, "--token must be gmail=TOKEN or notion=TOKEN");
    if (!text.len || text.len > TOKEN_TEXT_MAX)
        return err_set(err, ERR_INVALID, "--token: a token has 1 to %d characters", TOKEN_TEXT_MAX);
    if (tokens->count == TOKENS_MAX || rest.len > TOKEN_SCOPES_MAX)
        return err_set(err, ERR_LIMIT, "--token: too many tokens, or scopes");
    slice names = rest.ptr ? rest : slice_cstr(apps[i].all);
    tokens->items[tokens->count] = (struct token){app, text, names};
    while (names.len) {
        slice name = slice_split(&names, ',');
        if (!slice_has_word(slice_cstr(apps[i].scopes), name))
            return err_set(err, ERR_INVALID, "--token: no scope is called %.*s", SLICE_ARG(name));
    }
    tokens->count++;
    return OK;
}

bool token_may(const struct token *token, const char *scopes)
{
    slice rest = token->scopes;
    while (rest.len)
        if (slice_has_word(slice_cstr(scopes), slice_split(&rest, ',')))
            return true;
    return false;
}

slice token_bearer(const struct http_exchange *http)
{
    slice value = http_request_header(http, SLICE("Authorization"));
    bool is_bearer = slice_eq_nocase(slice_first(value, 7), SLICE("Bearer "));
    return is_bearer ? slice_trim(slice_from(value, 7)) : SLICE_NONE;
}

const struct token *tokens_find(const struct tokens *tokens, const char *app,
                                const struct http_exchange *http)
{
    slice text = token_bearer(http);
    for (size_t i = tokens->count; i-- > 0;) {
        const struct token *token = &tokens->items[i];
        if (slice_eq_cstr(token->app, app) && slice_eq(text, token->text))
            return token_may(token, "expired revoked") ? NULL : token;
    }
    return NULL;
}
