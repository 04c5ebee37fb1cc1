/*
 * The accepted bearer tokens and their scopes. Demo tokens are built in (README.md); --token adds
 * more.
 */
#ifndef PROVIDER_TOKEN_H
#define PROVIDER_TOKEN_H

#include "base/err.h"
#include "provider/provider.h"

enum { TOKENS_MAX = 1000, TOKEN_TEXT_MAX = 500, TOKEN_SCOPES_MAX = 200 };

/* Scopes are names separated by commas, as in --token. */
struct token {
    slice app, text, scopes;
};

struct tokens *tokens_new(void);
void tokens_free(struct tokens *tokens);
/* Adds a token: "gmail=TOKEN" or "notion=TOKEN", with scopes after commas:
 * "gmail=abc,readonly,send". */
int tokens_add(struct tokens *tokens, slice spec, struct err *err) MUST_CHECK;
/* Returns the token of the request, or NULL if it is unknown, expired, revoked, or another
 * app's. */
const struct token *tokens_find(const struct tokens *tokens, const char *app,
                                const struct http_exchange *http);
/* Returns the token of `Authorization: Bearer ...`, or SLICE_NONE if there is none. */
slice token_bearer(const struct http_exchange *http);

/* Returns whether the token has one of these scopes. */
bool token_may(const struct token *token, const char *scopes);

#endif
