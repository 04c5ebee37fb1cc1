/*
 * A JSON-RPC message and its answers. Private to the mcp room.
 */
#ifndef MCP_MESSAGE_H
#define MCP_MESSAGE_H

#include "api/request.h"
#include "catalog/catalog.h"

#define MCP_MODERN   "2026-07-28"
#define MCP_LEGACY   "2025-11-25" /* the newest earlier revision */
#define MCP_TASKS    "io.modelcontextprotocol/tasks"
#define MCP_META_KEY "sluice/idempotency_key"
/* in sentences, as exec_request.key_name */
#define MCP_META_KEY_NAME "\"" MCP_META_KEY "\" in _meta"
#define MCP_META_POLICY   "sluice/policy"
#define MCP_META_STRUCT   "sluice/structured"
#define MCP_SUBSCRIPTION  "io.modelcontextprotocol/subscriptionId"

enum mcp_code {
    MCP_PARSE_ERROR = -32700,
    MCP_INVALID_REQUEST = -32600,
    MCP_METHOD_NOT_FOUND = -32601,
    MCP_INVALID_PARAMS = -32602,
    MCP_INTERNAL_ERROR = -32603,
    MCP_RESOURCE_NOT_FOUND = -32002, /* used only before 2026-07-28 */
    MCP_HEADER_MISMATCH = -32020,
    MCP_MISSING_CAPABILITY = -32021,
    MCP_UNSUPPORTED_VERSION = -32022,
};

/* In the op's arena; values are borrowed from the request's body. */
struct mcp_message {
    const struct json *id;                  /* a string or an integer; NULL: a notification */
    const struct json *params;              /* an object, or NULL */
    const struct json *meta, *capabilities; /* objects, or NULL; capabilities only with is_modern */
    slice method;
    bool is_modern;
    slice name; /* the called tool, the URI to read, or the task; else SLICE_NONE */
    /* whether the client can show a form, or open a URL, and return the answer */
    bool has_forms, has_urls;
    bool has_tasks;              /* the client accepts a task instead of a result */
    const struct json *progress; /* the token, if the client accepts progress; else NULL */
    int64_t progress_sent;       /* the last progress that was sent */
    bool is_streaming;           /* the reply has begun as a stream (stream.h) */
    bool is_subscription;        /* its result contains the subscription's id */
    slice result_members;        /* "name":value, ... to begin the result with; or SLICE_NONE */
    struct schema_slips slips;   /* slips in the call that were mended (slips.c) */
    size_t slip_bytes;           /* of texts that were parsed to find slips */
    slice list_lines, list_end;  /* from list_text.c: what a model reads instead of the JSON; or
                                  * SLICE_NONE */
    bool is_structured;          /* a program wants results as objects */
    bool is_own;                 /* the tool's result contains no data from outside (tools.c) */
    bool wants_steps;            /* a flow's result has the whole steps */
    bool wants_context;          /* a flow's result also has the flow's input and context */
    const struct json
        *start_wait;         /* start_flow waits as get_flow does, in seconds; NULL: it does not */
    slice started;           /* the result of the start, if the wait fails */
    slice view;              /* from task.c: of a held call, until its asker is known */
    struct mcp_asker *asker; /* from task.c */
    slice state;             /* requestState; SLICE_NONE: none */
    const struct json *answers; /* inputResponses; an object, or NULL */
    bool is_agreed;             /* the person at the client agreed to this call */
    const struct json *filled;  /* from input_form.c: the input that a person gave; NULL: none */
    struct mcp_asking *asking;  /* from confirm.c */
    struct exec_request *unconfirmed; /* from run.c: the call whose ids are being read */
    slice shows;                      /* from run.c: what its ids mean: JSON members */
    slice blocked;                    /* from connect.c: the result if there is no link */
    slice kept;                       /* from connect.c: the state for the link */
};

/* Why a message is refused, with 400. data: as for mcp_reply_error. */
struct mcp_fault {
    enum mcp_code code;
    slice text, data;      /* in the arena; text is SLICE_NONE if there was no memory */
    const struct json *id; /* id of the message; NULL: no id could be read */
};

/* Parses the message from the body (an object) and the headers. The message is in the arena and
 * borrows from both. Returns NULL and sets *fault if it is refused. */
struct mcp_message *mcp_message_parse(struct arena *arena, const struct json *body,
                                      const struct http_head *head,
                                      struct mcp_fault *fault) MUST_CHECK;
/* Parses the message of a request. Returns NULL if it has answered the request. */
struct mcp_message *mcp_message_read(struct api_request *request) MUST_CHECK;
/* Whether this revision is supported. */
bool mcp_version_is_legacy(slice version);
void mcp_put_versions(struct json_writer *w);

/* Answers with an error. message may be NULL if it could not be read. data: JSON text of an
 * object, or SLICE_NONE. */
enum op_result mcp_reply_error(struct api_request *request, const struct mcp_message *message,
                               unsigned status, enum mcp_code code, slice data, const char *fmt,
                               ...) PRINTF_LIKE(6, 7);
/* Refuses a method that needs a client that supports tasks. */
enum op_result mcp_refuse_without_tasks(struct api_request *request,
                                        const struct mcp_message *message);
/* Until the message has been read, converts all replies to JSON-RPC errors. */
extern const struct api_envelope mcp_refusal;

/* A result under construction: its members are written with w. */
struct mcp_result {
    struct buf text;
    struct json_writer w;
};
/* reserve: the expected number of bytes. */
void mcp_result_begin(struct mcp_result *result, const struct mcp_message *message, size_t reserve);
/* Like mcp_result_begin, for an incomplete result. type is "input_required" or "task", which
 * only clients of 2026-07-28 receive. */
void mcp_result_begin_as(struct mcp_result *result, const struct mcp_message *message,
                         const char *type, size_t reserve);
/* Writes how long a result may be cached; revisions before 2026-07-28 have no such members. */
void mcp_result_put_caching(struct mcp_result *result, const struct mcp_message *message,
                            int64_t ttl_ms);
/* Opens a question as a form (the member inputRequests). Between the two calls the caller writes
 * the member requestedSchema. key: the key of the answer. */
void mcp_form_open(struct json_writer *w, slice key, slice message);
/* Writes a text that a person reads before a decision: invisible characters become \uXXXX,
 * except the ASCII characters in `kept`. */
void mcp_put_visible(struct json_writer *w, const char *name, slice text, slice kept);
/* Text from outside for a line of a list: json_excerpt, in which invisible characters become
 * \uXXXX, too. Returns SLICE_NONE if out of memory. */
slice mcp_excerpt(slice text, struct arena *arena);
/* Begins a line with the name of the value that the caller writes next. */
void mcp_form_put_name(struct buf *form, slice name);
void mcp_form_close(struct json_writer *w);
/* Completes the result and answers with it. */
enum op_result mcp_result_send(struct api_request *request, const struct mcp_message *message,
                               struct mcp_result *result);

#endif
