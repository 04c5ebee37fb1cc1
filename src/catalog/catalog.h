/*
 * The catalog: integrations and their actions, read from manifests (contrib/integrations/README.md
 * describes the format), an immutable snapshot. All of a manifest is checked when it is loaded, or
 * when sluice is built for those compiled in; what then remains is a pack (pack.h): texts, rendered
 * replies of the discovery endpoints, and the search index. An integration or action is compiled
 * (schemas, expressions) from its text in the pack when it is first looked up, which costs some ten
 * microseconds and cannot fail but for lack of memory.
 *
 * Ownership: a snapshot is counted. Code that works with an action across turns holds a reference;
 * a reload makes a new snapshot next to the old one and swaps them (server/reload.c). One snapshot
 * is used by one thread at a time, since looking up compiles.
 */
#ifndef CATALOG_CATALOG_H
#define CATALOG_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "expr/expr.h"
#include "json/json.h"
#include "schema/schema.h"

enum {
    CATALOG_TOOL_NAME_MAX = 64, /* what model vendors accept as a tool name */
    CATALOG_MANIFEST_BYTES_MAX = 16 * 1024 * 1024,
    CATALOG_ACTIONS_MAX = 5000, /* an integration */
    CATALOG_INTEGRATIONS_MAX = 1000,
    CATALOG_PARTS_MAX = 256, /* query parameters, headers or form fields of a request */
    CATALOG_RULES_MAX = 64,
    CATALOG_PAGES_DEFAULT = 10,
    CATALOG_PAGES_MAX = 100,
    CATALOG_PAGE_INPUTS_MAX = 8,      /* that ask for a page */
    CATALOG_AUTHS_MAX = 4,            /* ways to connect an app */
    CATALOG_INSTEAD_MAX = 8,          /* alternatives of one request */
    CATALOG_REQUIRED_MAX = 16,        /* members without which a reply is not the action's */
    CATALOG_REQUESTS_MAX = 3,         /* of one action, one behind the other */
    CATALOG_HOSTS_MAX = 8,            /* that a URL out of a reply may name */
    CATALOG_DEADLINE_MS_MAX = 600000, /* of one action */
    CATALOG_PROBLEMS_MAX = 200,       /* a report; further ones are counted only */
};

enum catalog_level { LEVEL_READ, LEVEL_WRITE, LEVEL_DELETE, LEVEL_ADMIN };

enum catalog_auth_kind {
    AUTH_NONE,
    AUTH_OAUTH2,
    AUTH_OAUTH2_CLIENT_CREDENTIALS,
    AUTH_API_KEY,
    AUTH_BEARER,
    AUTH_BASIC,
};

/* One named template: a query parameter, a header, a field of a form. */
struct catalog_part {
    slice name;
    const struct expr_template *value;
};

struct catalog_parts {
    struct catalog_part *items;
    size_t count;
};

/* One member of a credential, as a person types it. */
struct catalog_field {
    slice name, label;
    slice help, placeholder, docs_url; /* what it is, how it looks, where to find it; or empty */
    bool is_secret, may_be_empty;
};

enum { CATALOG_FIELDS_MAX = 2 };

struct catalog_auth {
    enum catalog_auth_kind kind;
    slice name; /* for people, where there is a choice; else empty */
    slice authorize_url, token_url, scope_separator;
    const struct json *scopes; /* array of strings; NULL when none */
    /* object: scope -> what it is good for; asked for where a person wants it. NULL when none */
    const struct json *optional_scopes;
    const struct json *authorize_params; /* object of strings; NULL when none */
    /* object: authorize parameter -> "email", "subject" or "label" of whom it is to be; or NULL */
    const struct json *login_hint;
    bool token_by_basic, token_as_json, uses_pkce;
    /* Over a refusal of the token endpoint: the grant has ended. NULL where auth is no OAuth. */
    const struct expr *gone;
    /* Where the credential goes; value NULL: nowhere (AUTH_NONE), or AUTH_BASIC's own header. In
     * the path the value stands between base_url and the action's path, and has no name. */
    enum { SEND_IN_HEADER, SEND_IN_QUERY, SEND_IN_PATH } send_in;
    slice send_name;
    const struct expr_template *send_value;
    /* The harmless request that proves a credential; path empty: none. */
    slice test_method, test_path;
    const struct json *test_query;
    const struct expr *test_label;
    struct catalog_field fields[CATALOG_FIELDS_MAX]; /* of the form; none for OAuth */
    size_t field_count;
};

/* A reply that means "too fast"; retry_after may be NULL. */
struct catalog_rate_rule {
    const struct expr *when, *retry_after;
};

struct catalog_limits {
    bool is_per_action; /* counted for each action of a connection; else all together */
    double rate_per_s;  /* 0: none known */
    unsigned burst, in_flight_max;
    unsigned connect_timeout_ms, first_byte_timeout_ms, total_timeout_ms; /* 0: server's default */
    size_t response_bytes_max;                                            /* 0: server's default */
    unsigned retry_after_s; /* where a reply says "too fast" and not how long; 0: not known */
    struct catalog_rate_rule *rate_rules;
    size_t rate_rule_count;
    /* what every reply says of the calls that are left; both or none */
    const struct expr *quota_remaining, *quota_reset;
};

/* What a reply that matched a rule says of a write. IN_PROGRESS: an earlier request under the same
 * provider key is still being carried out. */
enum catalog_rule_outcome {
    RULE_SAYS_NOTHING,
    RULE_NOT_DONE,
    RULE_PARTLY,
    RULE_UNKNOWN,
    RULE_IN_PROGRESS,
};

/* From a reply to an error: the first whose `when` is true wins. */
struct catalog_error_rule {
    uint32_t source_index; /* in the manifest's array */
    bool is_of_part;       /* which is named there */
    const struct expr *when;
    bool on_success;
    bool missing_scopes; /* a new grant mends it */
    enum catalog_rule_outcome outcome;
    slice error_code;                           /* empty: the status decides */
    const struct expr_template *message, *hint; /* NULL: sluice's own text */
};

struct catalog_error_rules {
    struct catalog_error_rule *items;
    size_t count;
};

/* What becomes of arrays and objects in a query or a form: names that repeat (objects are refused),
 * name[]=, or name[0]=; both of the latter give name[key]= for objects, as does the last one, whose
 * arrays repeat the name. */
enum catalog_nesting { NESTING_REPEAT, NESTING_BRACKETS, NESTING_INDICES, NESTING_DEEP };

enum catalog_body_kind { BODY_NONE, BODY_JSON, BODY_FORM, BODY_MULTIPART, BODY_RAW };

struct catalog_request {
    slice method;
    const struct expr_template *base_url; /* NULL: the integration's */
    bool is_host_given; /* base_url's host is, or holds, a value of the connection */
    const struct expr_template *path;
    /* Instead of both, out of an earlier reply: an absolute URL, or a path on the origin of the
     * request before. Its host is that origin's or one of `hosts` (array of strings or NULL). */
    const struct expr_template *url;
    const struct json *hosts;
    bool is_bare; /* it carries neither the credential nor the integration's headers */
    struct catalog_parts query, headers;
    enum catalog_nesting nesting; /* in query and form */
    enum catalog_body_kind body_kind;
    const struct expr_template *body; /* BODY_JSON, BODY_RAW */
    struct catalog_parts fields;      /* BODY_FORM, BODY_MULTIPART */
    slice content_type; /* of BODY_RAW; of BODY_JSON where it is not application/json */
    bool raw_is_base64;
    bool takes_others; /* inputs that input_schema does not name are members of the body */
    /* What is sent in its stead: the first whose `when` is true. */
    struct catalog_request_case *instead;
    size_t instead_count;
};

struct catalog_request_case {
    const struct expr *when;
    struct catalog_request request; /* whole, without an `instead` of its own */
};

enum catalog_reply_body {
    REPLY_JSON,
    REPLY_TEXT,
    REPLY_BYTES,
    REPLY_NONE,
    REPLY_ANY,
};

enum catalog_reply_kind { REPLY_KIND_ANY, REPLY_KIND_OBJECT, REPLY_KIND_ARRAY };

/* What a 2xx reply is, when it is the action's. */
struct catalog_reply {
    enum catalog_reply_body body;
    enum catalog_reply_kind kind; /* of JSON */
    bool is_kind_known;           /* it was said, or follows from what was */
    /* what it never lacks: each with its text, for messages */
    const struct expr **required;
    slice *required_texts;
    size_t required_count;
};

/* One of the inputs that ask for the next page, and what a reply gives for it: null where there is
 * none. */
struct catalog_page_part {
    slice input;
    const struct expr *next;
};

struct catalog_pages {
    struct catalog_page_part *items;
    size_t count; /* 0: no paging */
    unsigned max; /* that one execution may read; 0: CATALOG_PAGES_DEFAULT */
};

struct catalog_files {
    enum { FILES_NONE, FILES_MULTIPART, FILES_RAW, FILES_BASE64 } travel;
    slice field;
    unsigned count_max;
    size_t bytes_max;
    unsigned at; /* which of the action's requests carries them; 0: its first or only one */
};

/* A request behind the action's first: its templates see the replies to those before. */
struct catalog_then {
    struct catalog_request request;
    const struct json *source; /* of the request, for a dry run */
    struct catalog_reply reply;
    /* What the requests before it have done, and what this one would have: the beginning and the
     * end of a sentence. NULL: those before only ask, nothing that lasts was done. */
    const struct expr_template *done, *not_done;
    bool is_done_said;  /* of a write it has to be: texts, or false */
    bool is_idempotent; /* it alone may be repeated after a lost reply */
};

/* As whom a connection acts: read from the reply to `request`, to the test request, or from the
 * claims of the ID token that came with the access token. */
struct catalog_identity {
    enum { IDENTITY_NONE, IDENTITY_REQUEST, IDENTITY_TEST, IDENTITY_ID_TOKEN } from;
    struct catalog_request request;
    const struct expr *email, *subject, *label; /* each may be NULL, the first two not both */
    const struct expr *output;                  /* an object of all three */
    const struct json *scopes; /* asked for besides, and missed by no action; NULL: none */
};

struct catalog_integration;

/* The first part, the head, is there in all that a list or a search shows; the rest once the action
 * was looked up by catalog_find_action or catalog_find_tool. */
struct catalog_action {
    const struct catalog_integration *integration;
    slice action_id, tool_name, title, description;
    enum catalog_level level;
    bool requires_confirmation;
    bool is_open;                 /* all of it is there */
    slice item_json, detail_json; /* rendered once: the item of 2.3 and the detail of 2.4 */
    slice scope_words;            /* the scopes below, with a space between two */
    slice undo;   /* "never", or the action of the app that takes it back; empty: not said */
    slice source; /* its JSON, where it was packed */

    slice docs_url;                      /* empty: not said */
    slice met_date, met_source, checked; /* what proves it; empty: nothing does */
    uint32_t source_index;               /* in its manifest's `actions`, while that is loaded */
    bool is_idempotent;                  /* repeating it is the same as doing it once */
    /* Where the provider's own idempotency key goes; both empty: it knows none. The member is one
     * of the body, of JSON with dots for one inside: "variables.input.id". */
    slice idempotency_header, idempotency_member;
    struct catalog_parts recipients; /* the people whom a call reaches (recipient.h) */
    slice gone;                      /* why the provider no longer has it; empty: it has */
    const struct json *scopes, *tags, *examples, *preconditions; /* arrays or NULL */
    const struct json *input_schema, *output_schema;             /* the latter may be NULL */
    const struct schema *schema;
    unsigned deadline_ms; /* 0: the server's default */
    /* The 4xx that prove that nothing was done, an array of integers; NULL: the integration's */
    const struct json *not_done_statuses;
    struct catalog_request request;
    struct catalog_error_rules errors;
    struct catalog_files files;
    struct catalog_reply reply;
    struct catalog_then *then; /* the requests behind the first */
    unsigned then_count;       /* below CATALOG_REQUESTS_MAX */
    const struct expr *output; /* of the last reply; NULL: the whole body */
    struct catalog_pages pages;
    const struct expr_template *display_title, *display_summary;
};

/* The head is there always, with auth.kind; the rest once it was looked up. */
struct catalog_integration {
    struct catalog *catalog;
    slice integration_id, name, description, category, docs_url;
    slice icon;                     /* a path of SVG, of strokes on a grid of 16; empty: none */
    slice capabilities_json;        /* array of action ids */
    struct catalog_action *actions; /* sorted by action_id; NULL until one is needed */
    size_t action_count;
    size_t position;     /* in the catalog's integrations */
    size_t action_first; /* position of its actions in the pack */
    size_t search_first; /* its position in the search index; its actions follow */
    slice source;        /* its JSON without `actions`, where it was packed */
    bool is_open;

    const struct json *document; /* while it is loaded */
    const struct json *tags;
    const struct expr_template *base_url;
    bool is_host_given; /* base_url's host is, or holds, a value of the connection */
    struct catalog_parts headers;
    const struct json *connection_params; /* JSON Schema or NULL */
    const struct schema *connection_schema;
    struct catalog_auth auth;   /* the first of the choices below */
    struct catalog_auth *auths; /* ways to connect, each of another kind */
    size_t auth_count;
    struct catalog_identity identity;
    const struct json *scope_words; /* object: scope -> what it allows, in words; or NULL */
    bool follows_redirects;         /* on their own origin */
    struct catalog_limits limits;
    struct catalog_error_rules errors;
    const struct json *not_done_statuses; /* as an action's; NULL: the usual ones (call/effect.h) */
};

struct pack_header;

struct catalog {
    struct arena arena; /* of what was looked up */
    unsigned refs;
    const struct pack_header *pack;
    char *owned;                               /* the pack, or NULL */
    struct catalog_integration **integrations; /* sorted by integration_id */
    size_t integration_count, action_count;
    struct search_index *search; /* search.h */
    const char *etag;            /* quoted hash of all manifests */
};

/* A manifest's text and the name to show in errors. */
struct catalog_source {
    slice name, text;
};

/* Where a manifest is wrong: file, JSON Pointer, and what to do. */
struct catalog_problem {
    slice source, pointer, text;
    bool is_warning;
};

struct catalog_report {
    struct arena arena;
    struct catalog_problem problems[CATALOG_PROBLEMS_MAX];
    size_t count; /* stored */
    size_t error_count, warning_count;
};

/* Checks and packs all sources. NULL when the report has an error (or memory ran out: reported
 * too). Later sources replace earlier integrations of the same id. Texts are copied. */
struct catalog *catalog_load(const struct catalog_source *sources, size_t count,
                             struct catalog_report *report) MUST_CHECK;
/* The manifests compiled in, then every *.json of `dir` (NULL for none), sorted by name. */
struct catalog *catalog_load_all(const char *dir, struct catalog_report *report) MUST_CHECK;
/* One file, into the arena; its path is its name. false: reported why not. */
bool catalog_read_file(slice path, struct arena *arena, size_t bytes_max,
                       struct catalog_source *out, struct catalog_report *report) MUST_CHECK;
/* The *.json of a folder, sorted by name, into items: how many. Names and texts lie in the arena;
 * what cannot be read, is over bytes_max or finds no room is reported. */
size_t catalog_read_folder(const char *dir, struct arena *arena, size_t bytes_max,
                           struct catalog_source *items, size_t room,
                           struct catalog_report *report);
struct catalog *catalog_ref(struct catalog *catalog);
void catalog_unref(struct catalog *catalog);

void catalog_report_init(struct catalog_report *report);
void catalog_report_deinit(struct catalog_report *report);
/* One of its own, as it is too large for a stack. NULL: ERR_NOMEM in err, which may be NULL. */
struct catalog_report *catalog_report_new(struct err *err) MUST_CHECK;
void catalog_report_free(struct catalog_report *report);
void catalog_report_add(struct catalog_report *report, bool is_warning, slice source, slice pointer,
                        const char *fmt, ...) PRINTF_LIKE(5, 6);

/* NULL when unknown, or when memory ran out; *status (may be NULL) gets OK, ERR_NOTFOUND or
 * ERR_NOMEM. */
const struct catalog_integration *catalog_find_integration(const struct catalog *catalog, slice id,
                                                           int *status);
/* action is the action id or the full tool name. NULL as above. */
const struct catalog_action *catalog_find_action(const struct catalog_integration *integration,
                                                 slice action, int *status);
/* Sees that all integrations have `actions`, as a list of them needs, without compiling any.
 * ERR_NOMEM. */
int catalog_open_heads(const struct catalog *catalog) MUST_CHECK;
/* The same without compiling it: only what a list shows is there. Behind catalog_open_heads NULL
 * means that it is unknown. */
const struct catalog_action *catalog_find_head(const struct catalog_integration *integration,
                                               slice action);
/* Of the integration "gmail" and the action "gmail_send_message" what stands behind "gmail_"; else
 * all of it. */
slice catalog_short_id(slice integration_id, slice action);
/* By full tool name: longest registered integration prefix (src/api/README.md "Tool endpoint"). */
const struct catalog_action *catalog_find_tool(const struct catalog *catalog, slice tool_name);

/* ---- unknown.c: for ids that the finders do not know ---- */

/* The id that is meant; SLICE_NONE: none is near. Borrowed. */
slice catalog_nearest_integration(const struct catalog *catalog, slice id);
/* action: an action id or a full tool name; the answer is an action id. */
slice catalog_nearest_action(const struct catalog_integration *integration, slice action);
slice catalog_nearest_tool(const struct catalog *catalog, slice tool_name);
/* A sentence for the caller: `There is no integration "Gmail"; did you mean "gmail"?`. In the
 * arena; SLICE_NONE: out of memory. */
slice catalog_say_no_integration(const struct catalog *catalog, slice id, struct arena *arena);
slice catalog_say_no_action(const struct catalog_integration *integration, slice action,
                            struct arena *arena);
slice catalog_say_no_tool(const struct catalog *catalog, slice tool_name, struct arena *arena);

/* Of the action's request `at` (0: the first), and of the reply to it. */
static inline const struct catalog_request *catalog_request_at(const struct catalog_action *action,
                                                               unsigned at)
{
    ASSERT(at <= action->then_count);
    return at == 0 ? &action->request : &action->then[at - 1].request;
}

static inline const struct catalog_reply *catalog_reply_at(const struct catalog_action *action,
                                                           unsigned at)
{
    ASSERT(at <= action->then_count);
    return at == 0 ? &action->reply : &action->then[at - 1].reply;
}

/* Whether the provider takes an idempotency key, by which the action may be sent again. */
static inline bool catalog_has_provider_key(const struct catalog_action *action)
{
    return action->idempotency_header.len > 0 || action->idempotency_member.len > 0;
}

/* Whether the request may do something that lasts: where it does not, it may be sent again. */
static inline bool catalog_request_acts(const struct catalog_action *action, unsigned at)
{
    ASSERT(at <= action->then_count); /* what one did is said by the one behind it */
    bool only_asks = at < action->then_count && !action->then[at].done;
    return action->level != LEVEL_READ && !only_asks;
}

const char *catalog_level_name(enum catalog_level level);
const char *catalog_auth_name(enum catalog_auth_kind kind);
/* The way to connect that a connection's auth_kind names; the first where it names none of them. Of
 * an integration that was looked up. */
const struct catalog_auth *catalog_auth_of(const struct catalog_integration *integration,
                                           slice kind);
/* NULL: the app is not connected so. */
const struct catalog_auth *catalog_auth_by(const struct catalog_integration *integration,
                                           enum catalog_auth_kind kind);

/* Whether this refusal by the token endpoint says that the grant has ended, so that a person has to
 * connect the app again. */
bool catalog_grant_is_gone(const struct catalog_auth *auth, unsigned status,
                           const struct json *body, struct arena *arena);

/* What a scope that is asked for allows, in words for people; SLICE_NONE: the manifest does not
 * say. */
slice catalog_scope_words(const struct catalog_integration *integration, slice scope);

/* What a stored credential of a type of auth is. */
struct catalog_credential {
    const char *advice;              /* what `send` is meant to write of it */
    const char *required, *optional; /* its members, with a blank between two */
    const char *form;                /* the same for people: "username and password" */
};
const struct catalog_credential *catalog_credential_of(enum catalog_auth_kind kind);
/* Whether one of that type may have the member. */
bool catalog_credential_has(enum catalog_auth_kind kind, slice member);

/* What fits on a line or two: the description whole where it is short, else its first sentences. A
 * part of it, not a copy. */
slice catalog_summary(slice description);
/* What the action was proven with, a sentence for people; made in the arena. */
slice catalog_proof(const struct catalog_action *action, struct arena *arena);

#endif
