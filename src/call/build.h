/*
 * Builds the HTTP request from an action and an input (contrib/integrations/README.md "request").
 */
#ifndef CALL_BUILD_H
#define CALL_BUILD_H

#include "base/secret.h"
#include "base/secret_mask.h"
#include "catalog/catalog.h"
#include "call/files.h"
#include "http/client.h"

/* The progress of an action with several requests (sequence.c). Everything is in the run's
 * arena. */
struct call_progress {
    unsigned at;                                   /* index of the current request; 0: the first */
    unsigned began_at;                             /* index of the first one that is sent */
    struct json replies[CATALOG_REQUESTS_MAX - 1]; /* replies to earlier requests: {status, headers,
                                                    * body} */
    slice former_url;                              /* URL of the previous request */
    /* What earlier requests did, and what was not done after them, as texts; empty if they had no
     * lasting effect. */
    slice done, not_done;
};

/* The values for templates. Trees live as long as the build's result. */
struct call_scope {
    const struct json *input;
    const struct json *connection_params; /* NULL: empty */
    const struct call_file *files;        /* decoded, checked (call_files_check) */
    size_t file_count;
    slice provider_key;             /* for the action's idempotency_header or idempotency_member */
    struct call_progress *progress; /* NULL: the action has only one request */
    bool is_display_unused; /* the outcome's display texts are not read, so they are not made */
    const struct catalog_auth *auth; /* the connection's auth; NULL: the integration's only one */
};

/* The body has a text before each file, the file, and a text after the last file. */
enum {
    CALL_BODY_PARTS_MAX = 2 * CALL_FILES_MAX + 1,
};

/* A request ready for http_call; everything is in the arena. The bytes of files are not copied:
 * they are separate parts of the body. */
struct call_built {
    slice method, url;
    bool is_host_given;           /* the host of url is, or contains, a value of the connection */
    bool is_bare;                 /* sent without the credential, so a refusal does not concern the
                                   * credential */
    bool is_redirected;           /* url was taken from a reply's redirect (redirect.c) */
    unsigned at;                  /* the request's position among the action's requests */
    size_t credential_index;      /* index of the header with the credential; SIZE_MAX: none */
    size_t secret_at, secret_len; /* position of the credential in the url; len 0: none */
    struct secret_mask secrets;   /* texts that no reply may show */
    size_t header_count, body_count;
    /* These come last, because they are most of the struct's bytes and are written before they are
     * read: an empty request has zeros up to here (CALL_BUILT_CLEARED). */
    struct http_header headers[HTTP_CALL_HEADERS_MAX];
    slice body[CALL_BODY_PARTS_MAX];
};

enum { CALL_BUILT_CLEARED = offsetof(struct call_built, headers) };

/* Adds the members of the credential that are secret to the mask. */
void call_mask_credential(const struct json *credential, struct secret_mask *mask);
/* Builds the current request of scope->progress. Returns ERR_INVALID if the input does not fit (an
 * expression that fails, an empty path segment, a header that may not be sent); err is then a
 * sentence for the caller, and nothing was sent. Returns ERR_REFUSED if a URL from a reply has a
 * host that is not in the manifest; otherwise OK, ERR_LIMIT or ERR_NOMEM. credential is a JSON
 * object with the members that auth.send names, decrypted by the caller; NULL for AUTH_NONE. */
int call_build(const struct catalog_action *action, const struct call_scope *scope,
               const struct json *credential, struct arena *arena, struct call_built *built,
               struct err *err) MUST_CHECK;
/* scope.c: makes the values for a request's templates: input, connection, files, and the replies so
 * far. */
struct json call_build_root(const struct call_scope *scope, struct arena *arena);
/* Adds the members `first` and `second` to a scope's root. */
void call_progress_put(const struct call_progress *progress, struct json *root,
                       struct arena *arena);
/* Appends the URL in text, which is from a reply to a request for former_url: an absolute URL, or a
 * path on the same origin. Its host must be that of former_url or one of hosts (array of strings,
 * may be NULL); otherwise returns ERR_REFUSED with the URL's origin in err. Returns ERR_INVALID if
 * the text is not a URL. */
int call_url_follow(slice former_url, slice text, const struct json *hosts, struct buf *url,
                    struct err *err) MUST_CHECK;

#endif
