/*
 * A request to an emulated app: its route, and the objects that its path and body name. An app is a
 * table of routes, a store, and a file of shapes and errors.
 */
#ifndef PROVIDER_CALL_H
#define PROVIDER_CALL_H

#include "expr/expr.h"
#include "provider/provider.h"
#include "provider/store.h"

/* For tables of routes. */
enum {
    GET = HTTP_METHOD_GET,
    POST = HTTP_METHOD_POST,
    PUT = HTTP_METHOD_PUT,
    PATCH = HTTP_METHOD_PATCH,
    DELETE = HTTP_METHOD_DELETE,
};

struct call;
struct schema;

/* Shapes are templates (expr/expr.h) by name, compiled once. */
struct shapes {
    const struct json *data; /* {name: template} */
    struct expr_template **templates;
};

/* An emulated app. Its file has the shapes of replies and errors, and what requests may have. */
struct app {
    const char *name; /* for tokens and the ledger */
    void (*handle)(struct call *call);
    struct arena arena;
    const struct json *data; /* the file; NULL: the app has none */
    struct shapes shapes;
    struct schema *requests; /* schema of {name of a route: body} */
    struct store store;
};
/* Reads the file NAME.json. */
void app_init(struct app *app, const char *name, void (*handle)(struct call *call),
              size_t made_max);
void app_deinit(struct app *app);

/* Answers the request. Returns false if the answer is an error, so that a caller may `return
 * call_bad(...)`. */
typedef bool (*call_handler)(struct call *call);

struct route {
    int method;          /* enum http_method */
    const char *pattern; /* segments separated by slashes; "*" is a parameter, which is not empty */
    call_handler run;
    const char *scopes; /* the token needs one of these scopes; NULL if it needs none */
    unsigned kind;      /* the app's kind of the object that the first parameter names */
    /* the name of a write in the ledger, or of another route in the app's data; or NULL */
    const char *name;
};

struct call {
    struct provider *provider;
    struct http_exchange *http;
    enum http_method method;         /* GET for HEAD */
    const struct http_header *query; /* decoded, in order */
    size_t query_count;
    int64_t now_us;
    struct provider_reply *reply;
    struct arena *arena; /* arena of the HTTP exchange */
    const struct route *route;
    const struct json *body; /* an object, empty if there was no body */
    slice id, id2;           /* from the path */
    struct record *record;   /* the record with that id, if the route gives its kind */
    struct json object;      /* object of the record, to be changed */
    struct json ids;         /* the ids of all mails that the request is about */
    const struct app *app;
};

/* Returns whether the path begins with that segment. */
bool call_is_below(const struct call *call, const char *segment);
/* Returns whether the query has a parameter whose name begins with `name` and whose value is
 * `value` (case is ignored), or has no such parameter. */
bool call_wants(const struct call *call, slice name, slice value);
/* Finds the route of these segments, and sets id and id2 to its parameters. Returns false if there
 * is none. */
bool call_route(struct call *call, const struct route *routes, size_t count, const slice *segments,
                size_t segment_count);
/* Reads the JSON of the request, or the query of a GET. Returns false if it is not valid JSON or
 * the app's schema does not allow it; it has then answered with the error `parse` or `body`. */
bool call_body(struct call *call);
bool call_reply(struct call *call, unsigned status, const struct json *value);
/* Answers with an error of the app's file, and returns false. If message is SLICE_NONE, it is the
 * error's own message, or that of the status. */
bool call_fail(struct call *call, unsigned status, const char *name, slice message);
/* Answers with the default error of a status, and returns false. */
bool call_error(struct call *call, unsigned status);
/* Answers with 400 and the error `invalid`, and returns false. */
bool call_bad(struct call *call, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Returns a random UUID, version 4. */
struct json call_uuid(struct call *call);
/* Enters in the ledger that the route's write was carried out. object_id and marker (a subject, a
 * title) are cut to LEDGER_TEXT_MAX bytes. */
void call_record(struct call *call, slice object_id, slice marker);
/* A member of the body, or NULL if it is absent. */
const struct json *call_get(const struct call *call, const char *name);

void shapes_init(struct shapes *shapes, struct arena *arena, const struct json *data);
/* Returns null if the result takes more memory than a request has. */
struct json shapes_make(const struct shapes *shapes, struct arena *arena, slice name,
                        const struct json *scope);

#endif
