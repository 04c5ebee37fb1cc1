/*
 * The bearer tokens that are accepted, and their scopes. Demo tokens are built in (README.md);
 * --token adds.
 */
#ifndef PROVIDER_TOKEN_H
#define PROVIDER_TOKEN_H

#include "base/err.h"
#include "provider/provider.h"

enum { TOKENS_MAX = 1000, TOKEN_TEXT_MAX = 500, TOKEN_SCOPES_MAX = 200 };

enum token_app { TOKEN_GMAIL, TOKEN_NOTION };

/* A token's scopes are names with a comma between, as --token has them. An expired or revoked one
 * is good for nothing. */
struct token {
    enum token_app app;
    char text[TOKEN_TEXT_MAX + 1], scopes[TOKEN_SCOPES_MAX + 1];
    bool is_dead;
};

struct tokens *tokens_new(void) MUST_CHECK;
void tokens_free(struct tokens *tokens);
/* "gmail=TOKEN" or "notion=TOKEN", behind a comma scopes: "gmail=abc,readonly,send". */
int tokens_add(struct tokens *tokens, slice spec, struct err *err) MUST_CHECK;
/* NULL when it is not known, not for this app, or expired. */
const struct token *tokens_find(const struct tokens *tokens, enum token_app app, slice text);

/* Whether it has one of these scopes. */
bool token_may(const struct token *token, const char *scopes);

#endif
