/*
 * See token.h. A list, since there are few tokens.
 */
#include "provider/token.h"

#include "base/mem.h"

struct tokens {
    struct token items[TOKENS_MAX];
    size_t count;
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
    const char *app, *scopes, *all; /* that there are, and those of a token that names none */
} apps[] = {
    [TOKEN_GMAIL] = {"gmail", "full modify readonly compose send labels metadata settings expired",
                     "full,settings"},
    [TOKEN_NOTION] = {"notion", "read insert update comments users revoked",
                      "read,insert,update,comments,users"},
};

struct tokens *tokens_new(void)
{
    struct tokens *tokens = mem_zalloc(sizeof(*tokens));
    struct err err;
    for (size_t i = 0; tokens && i < ARRAY_LEN(demo_tokens); i++)
        ASSERT(tokens_add(tokens, slice_cstr(demo_tokens[i]), &err) == OK);
    return tokens;
}

void tokens_free(struct tokens *tokens)
{
    mem_free(tokens);
}

static int read_scopes(struct token *token, slice names, struct err *err)
{
    if (!names.ptr)
        names = slice_cstr(apps[token->app].all);
    if (names.len > TOKEN_SCOPES_MAX)
        return err_set(err, ERR_LIMIT, "--token: too many scopes");
    if (names.len)
        memcpy(token->scopes, names.ptr, names.len);
    while (names.len) {
        slice name = slice_split(&names, ',');
        if (!slice_has_word(slice_cstr(apps[token->app].scopes), name))
            return err_set(err, ERR_INVALID, "--token: no scope is called %.*s", SLICE_ARG(name));
    }
    token->is_dead = token_may(token, "expired revoked");
    return OK;
}

int tokens_add(struct tokens *tokens, slice spec, struct err *err)
{
    slice rest = spec;
    slice app = slice_split(&rest, '=');
    slice text = slice_split(&rest, ',');
    struct token token = {.app = slice_eq_cstr(app, "notion") ? TOKEN_NOTION : TOKEN_GMAIL};
    if (!slice_eq_cstr(app, apps[token.app].app))
        return err_set(err, ERR_INVALID, "--token must be gmail=TOKEN or notion=TOKEN");
    if (!text.len || text.len > TOKEN_TEXT_MAX)
        return err_set(err, ERR_INVALID, "--token: a token has 1 to %d characters", TOKEN_TEXT_MAX);
    memcpy(token.text, text.ptr, text.len);
    if (tokens->count == TOKENS_MAX)
        return err_set(err, ERR_LIMIT, "too many tokens");
    if (read_scopes(&token, rest, err) != OK)
        return err->code;
    tokens->items[tokens->count++] = token;
    return OK;
}

bool token_may(const struct token *token, const char *scopes)
{
    slice rest = slice_cstr(token->scopes);
    while (rest.len)
        if (slice_has_word(slice_cstr(scopes), slice_split(&rest, ',')))
            return true;
    return false;
}

const struct token *tokens_find(const struct tokens *tokens, enum token_app app, slice text)
{
    for (size_t i = tokens->count; text.len && i-- > 0;) {
        const struct token *token = &tokens->items[i];
        if (token->app == app && slice_eq_cstr(text, token->text))
            return token->is_dead ? NULL : token;
    }
    return NULL;
}
