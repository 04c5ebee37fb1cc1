/*
 * The bearer tokens that are accepted, and their scopes. Demo tokens are built in (README.md);
 * --token adds.
 */
#ifndef PROVIDER_TOKEN_H
#define PROVIDER_TOKEN_H

#include "base/err.h"
#include "provider/provider.h"

enum { TOKENS_MAX = 1000, TOKEN_TEXT_MAX = 500 };

enum token_app { TOKEN_GMAIL, TOKEN_NOTION };

/* What a token may do. A Gmail token has scopes, a Notion one capabilities. */
enum token_scope {
    SCOPE_FULL = 1, /* https://mail.google.com/ */
    SCOPE_MODIFY = 2,
    SCOPE_READONLY = 4,
    SCOPE_COMPOSE = 8,
    SCOPE_SEND = 16,
    SCOPE_LABELS = 32,
    SCOPE_METADATA = 64,
    SCOPE_READ_CONTENT = 128,
    SCOPE_INSERT_CONTENT = 256,
    SCOPE_UPDATE_CONTENT = 512,
    SCOPE_COMMENTS = 1024,
    SCOPE_USERS = 2048,
    SCOPE_SETTINGS = 4096, /* gmail.settings.basic */
    SCOPE_EXPIRED = 8192,  /* the token is good for nothing */
    SCOPE_NOTION_ALL = 128 + 256 + 512 + 1024 + 2048,
};

struct token {
    enum token_app app;
    char text[TOKEN_TEXT_MAX + 1];
    size_t len;
    unsigned scopes;
};

struct tokens *tokens_new(void) MUST_CHECK;
void tokens_free(struct tokens *tokens);
/* "gmail=TOKEN" or "notion=TOKEN", behind a comma scopes: "gmail=abc,readonly,send". */
int tokens_add(struct tokens *tokens, slice spec, struct err *err) MUST_CHECK;
/* NULL when it is not known, not for this app, or expired. */
const struct token *tokens_find(const struct tokens *tokens, enum token_app app, slice text);

#endif
