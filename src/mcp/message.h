/*
 * A JSON-RPC message and its answers. Private to the mcp room.
 */
#ifndef MCP_MESSAGE_H
#define MCP_MESSAGE_H

#include "api/request.h"

#define MCP_MODERN       "2026-07-28"
#define MCP_LEGACY       "2025-11-25" /* the newest of those before */
#define MCP_TASKS        "io.modelcontextprotocol/tasks"
#define MCP_META_KEY     "sluice/idempotency_key"
#define MCP_META_STRUCT  "sluice/structured"
#define MCP_SUBSCRIPTION "io.modelcontextprotocol/subscriptionId"

enum mcp_code {
    MCP_PARSE_ERROR = -32700,
    MCP_INVALID_REQUEST = -32600,
    MCP_METHOD_NOT_FOUND = -32601,
    MCP_INVALID_PARAMS = -32602,
    MCP_INTERNAL_ERROR = -32603,
    MCP_RESOURCE_NOT_FOUND = -32002, /* before 2026-07-28 */
    MCP_HEADER_MISMATCH = -32020,
    MCP_MISSING_CAPABILITY = -32021,
    MCP_UNSUPPORTED_VERSION = -32022,
};

/* In the op's arena; its values are borrowed from the request's body. */
struct mcp_message {
    const struct json *id;                  /* a string or an integer; NULL: a notification */
    const struct json *params;              /* an object, or NULL */
    const struct json *meta, *capabilities; /* likewise; the latter only with is_modern */
    slice method;
    bool is_modern;
    slice name; /* of the tool that is called, the URI that is read, the task; else SLICE_NONE */
    /* of the client: whether it can show a form, or open a URL, and tell the answer */
    bool has_forms, has_urls;
    bool has_tasks;              /* the client takes a task in place of a result */
    const struct json *progress; /* the token, where the client takes progress; NULL: it does not */
    int64_t progress_sent;       /* the last one that it was notified of */
    bool is_streaming;           /* the reply has begun as a stream (stream.h) */
    bool is_subscription;        /* its result names it */
    bool is_structured;          /* a tool's result is wanted for a program, too */
    slice state;                 /* requestState; SLICE_NONE: none */
    const struct json *answers;  /* inputResponses; an object, or NULL */
    bool is_agreed;              /* by the person at the client, to this call */
    const struct json *filled;   /* missing.c's: what a person gave for the input; NULL: nothing */
    struct mcp_asking *asking;   /* confirm.c's */
    slice blocked;               /* connect.c's: what is answered where there is no link */
    slice kept;                  /* connect.c's: a state that goes with the link */
};

/* Why a message is refused, with 400. data: as of mcp_reply_error. */
struct mcp_fault {
    enum mcp_code code;
    slice text, data;      /* in the arena; text is SLICE_NONE where that had no room */
    const struct json *id; /* of the message; NULL: it has none that could be read */
};

/* The message that a body, an object, and the headers are. It is in the arena, and borrows from
 * both. NULL: *fault. */
struct mcp_message *mcp_message_parse(struct arena *arena, const struct json *body,
                                      const struct http_head *head,
                                      struct mcp_fault *fault) MUST_CHECK;
/* The same of a request. NULL: answered. */
struct mcp_message *mcp_message_read(struct api_request *request) MUST_CHECK;
/* Whether this is a revision that is served. */
bool mcp_version_is_legacy(slice version);
void mcp_put_versions(struct json_writer *w);

/* An error answer; message may be NULL (nothing of it could be read). data: JSON text of an object,
 * or SLICE_NONE. */
enum op_result mcp_reply_error(struct api_request *request, const struct mcp_message *message,
                               unsigned status, enum mcp_code code, slice data, const char *fmt,
                               ...) PRINTF_LIKE(6, 7);
/* That the method needs a client with tasks. */
enum op_result mcp_refuse_without_tasks(struct api_request *request,
                                        const struct mcp_message *message);
/* Makes JSON-RPC errors of all replies before the message is read. */
extern const struct api_envelope mcp_refusal;

/* A result in the making: its members are written with w. */
struct mcp_result {
    struct buf text;
    struct json_writer w;
};
/* reserve: about how many bytes it will have. */
void mcp_result_begin(struct mcp_result *result, const struct mcp_message *message, size_t reserve);
/* As that, of a result that is not complete: type is "input_required" or "task", which only clients
 * of 2026-07-28 are sent. */
void mcp_result_begin_as(struct mcp_result *result, const struct mcp_message *message,
                         const char *type, size_t reserve);
/* What says how long a result may be used; revisions before 2026-07-28 have no such members. */
void mcp_result_put_caching(struct mcp_result *result, const struct mcp_message *message,
                            int64_t ttl_ms);
/* A question by a form, as the member inputRequests: between the two the caller writes the member
 * requestedSchema. key: of its answer. */
void mcp_form_open(struct json_writer *w, slice key, slice message);
/* A text that a person reads before they decide: what no reader sees is \uXXXX, but for those of
 * `kept` (ASCII). */
void mcp_put_visible(struct json_writer *w, const char *name, slice text, slice kept);
/* Begins a line with the name of a value, which follows. */
void mcp_form_put_name(struct buf *form, slice name);
void mcp_form_close(struct json_writer *w);
/* Writes the end and answers. */
enum op_result mcp_result_send(struct api_request *request, const struct mcp_message *message,
                               struct mcp_result *result);

#endif
