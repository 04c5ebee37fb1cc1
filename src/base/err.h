/*
 * A failure inside C: a negative code from one small enum, with detail in the caller's struct err.
 * Outcomes of the domain (blocked, failed ...) are not errors and are never reported this way.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/assert.h"

enum err_code {
    OK = 0,
    ERR_NOMEM = -1,   /* allocation failed, or an arena's limit was reached */
    ERR_LIMIT = -2,   /* a documented maximum would be exceeded */
    ERR_SYNTAX = -3,  /* input does not follow its grammar */
    ERR_INVALID = -4, /* input follows its grammar, but is not allowed here */
    ERR_NOTFOUND = -5,
    ERR_IO = -6, /* a system call or a peer failed; the text says which */
    ERR_TIMEOUT = -7,
    ERR_CLOSED = -8,  /* the other side or this side has closed the connection */
    ERR_REFUSED = -9, /* forbidden by a policy (address, scope, checksum) */
    ERR_BUSY = -10,   /* a bounded queue is full; trying later may work */
    ERR_CRYPTO = -11, /* a tag, signature or certificate did not verify */
};

enum { ERR_TEXT_MAX = 512 };

/* text is a sentence for a person that says what was wrong, where, and what to do. It never
 * contains a secret. */
struct err {
    enum err_code code;
    char text[ERR_TEXT_MAX];
};

/* Sets *err (which may be NULL) and returns code, so that `return err_set(...)` reads well. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Like err_set, for functions that return a pointer: always returns NULL. */
void *err_null(struct err *err, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Puts "prefix: " before the present text, to say where the error is. Returns err->code. */
int err_prefix(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
