/*
 * The emulated provider: one process that answers like Gmail and Notion, with its state in memory,
 * faults on request and a ledger of every write. It serves `sluice dev`, tests and benchmarks, and
 * is not part of the server. README.md here lists endpoints, tokens and fixed ids.
 *
 * A handler is a plain function from a request to a reply; it knows nothing of connections. One
 * thread handles one request at a time.
 */
#ifndef PROVIDER_PROVIDER_H
#define PROVIDER_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/slice.h"
#include "http/server.h"
#include "json/json.h"

enum {
    PROVIDER_REPLY_HEADERS_MAX = 8,
    PROVIDER_REPLY_BYTES_MAX = 64 * 1024 * 1024,
    PROVIDER_BODY_BYTES_MAX = 40 * 1024 * 1024, /* Gmail takes 35 MB of mail */
};

struct gmail;
struct notion;
struct faults;
struct ledger;
struct tokens;
struct fault;
struct call;

/* The generator of all pseudorandom values: the same seed gives the same values. */
struct rng {
    uint64_t state;
};

struct provider {
    struct rng rng;
    struct gmail *gmail;
    struct notion *notion;
    struct faults *faults;
    struct ledger *ledger;
    struct tokens *tokens;
    uint64_t seed;
    uint64_t requests;
};

struct provider_reply {
    unsigned status;
    /* the first header is Content-Type, if there is one */
    struct http_header headers[PROVIDER_REPLY_HEADERS_MAX];
    size_t header_count; /* without the first */
    struct buf *body;
    uint64_t delay_ms; /* answer later */
};

/* Creates the initial state from the seed. */
void provider_init(struct provider *provider, uint64_t seed, int64_t now_us);
void provider_deinit(struct provider *provider);
/* Restores the state after init, for POST /__control/reset. Faults are cleared, tokens stay. */
void provider_reset(struct provider *provider, int64_t now_us);
/* Answers the request. The status of the reply is always set. */
void provider_handle(struct call *call);
/* Writes the reply that a fault with a status asks for: its own body, or the app's error shape. */
void provider_fail(struct call *call, const struct fault *fault);

/* ---- replying ---- */

void reply_header(struct provider_reply *reply, slice name, slice value);
/* Sets status and JSON content type and returns a writer on the body. */
struct json_writer reply_json(struct provider_reply *reply, unsigned status);
/* Replies with a text, or without a body if content_type is SLICE_NONE. */
void reply_text(struct provider_reply *reply, unsigned status, slice content_type, slice text);
/* Replies with {"error": text}, and returns false. */
bool reply_error(struct provider_reply *reply, unsigned status, slice text);

/* ---- random and ids ---- */

uint64_t rng_next(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t bound);

/* Makes {key: value, ...}. The keys are the words of one text, and each has a value. */
struct json provider_object(struct arena *arena, const char *keys, const struct json *values,
                            size_t count);
#define OBJECT(arena, keys, ...)                                         \
    provider_object((arena), (keys), (const struct json[]){__VA_ARGS__}, \
                    sizeof((const struct json[]){__VA_ARGS__}) / sizeof(struct json))
/* Returns the object's members as a new object, which shares them, or {} if `object` is not an
 * object. */
struct json provider_copy(struct arena *arena, const struct json *object);
/* Compiles one of the provider's own templates and evaluates it. */
struct json provider_eval(struct arena *arena, const struct json *tree, const struct json *scope);
/* Returns the content of the compiled-in file NAME.json of this folder. */
const struct json *provider_data(struct arena *arena, const char *name);
/* Handles paths that belong to no app: /echo, /bytes/{n}, /status/{code}, /sleep/{ms} */
void generic_handle(struct call *call);
/* Answers requests to everything below /__control. */
void control_handle(struct call *call);

#endif
