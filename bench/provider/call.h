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
/* Answers the request. Returns false if the answer is an error, so that a caller may `return
 * notion_invalid(...)`. */
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
    const char *app;         /* for the ledger */
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
/* Reads the JSON of the request, or the query of a GET. requests is the schema of {name of the
 * route: body}; if it is NULL, the body is not checked. Returns ERR_INVALID if the schema does not
 * allow the body; err says why. Other errors mean that the body is not valid JSON. */
int call_body(struct call *call, const struct schema *requests, struct err *err) MUST_CHECK;
bool call_reply(struct call *call, unsigned status, const struct json *value);
/* Enters in the ledger that the route's write was carried out. object_id and marker (a subject, a
 * title) are cut to LEDGER_TEXT_MAX bytes. */
void call_record(struct call *call, slice object_id, slice marker);
/* A member of the body, or NULL if it is absent. */
const struct json *call_get(const struct call *call, const char *name);

/* Shapes are templates (expr/expr.h) by name, compiled once. */
struct shapes {
    const struct json *data; /* {name: template} */
    struct expr_template **templates;
};
void shapes_init(struct shapes *shapes, struct arena *arena, const struct json *data);
/* Returns null if the result takes more memory than a request has. */
struct json shapes_make(const struct shapes *shapes, struct arena *arena, slice name,
                        const struct json *scope);

#endif
