/*
 * Flow templates (contrib/templates/README.md describes the format): data that is compiled once,
 * never changed, and reference-counted. A template's version is the hash of its content; a flow
 * keeps the version that it began with, which is in the database (store/flow.h) for as long as a
 * flow may need it.
 *
 * Placeholders and expressions see, as `$`:
 *   input            the flow's inputs
 *   steps.<key>      the outputs of the completed steps (null for a skipped step)
 *   item, index      in a fan-out's `input` and `connection`
 *   flow             {id, templateKey, createdAt, triggerType, currentTime} (RFC 3339 texts)
 * currentTime is the time at which the step's attempt began. It is the only value that differs when
 * a step is evaluated again, so a confirmed write may not use it (lint).
 *
 * Titles (flow_title, and those of steps that are not approvals) are the names of flows and steps
 * on pages, and do not change what a flow does: they are part neither of the version nor of the
 * stored text. For an older version the pages use the step titles of the current template with the
 * same key.
 */
#ifndef FLOW_TEMPLATE_H
#define FLOW_TEMPLATE_H

#include "base/arena.h"
#include "base/id.h"
#include "base/map.h"
#include "catalog/catalog.h"
#include "expr/expr.h"
#include "policy/policy.h"
#include "schema/schema.h"

enum {
    FLOW_STEPS_MAX = 50,
    FLOW_ITEMS_MAX = 1000,     /* per fan-out */
    FLOW_CONCURRENCY_MAX = 20, /* default 4 */
    FLOW_ATTEMPTS_MAX = 20,    /* maximum of a step's attempts */
    FLOW_TEMPLATE_BYTES_MAX = 256 * 1024,
    FLOW_TITLE_CHARS_MAX = 120, /* per flow; a longer title is truncated */
};

/* The key of the templates of held calls (hold.c), which no catalog has. */
#define FLOW_HELD_KEY  "held_call"
#define FLOW_HELD_NAME "Held call"

enum flow_step_type { FLOW_TOOL_CALL, FLOW_TRANSFORM, FLOW_WAIT, FLOW_APPROVAL };

const char *flow_step_type_name(enum flow_step_type type);

enum flow_confirm {
    FLOW_CONFIRM_NONE, /* reads */
    FLOW_CONFIRM_START,
    FLOW_CONFIRM_APPROVAL,
};

struct flow_retry {
    /* 1: no retry; 0: the default, which is 3 if the call may be repeated, else 1 */
    unsigned attempts_max;
    /* the defaults are 1000 and 60000; the back-off doubles, with full jitter */
    unsigned backoff_ms, backoff_ms_max;
};

/* What a call changes, for the approval that shows it: `now` is evaluated over {before, item,
 * index}, `then` over the call's input; both give an object of properties. now is NULL if the step
 * has no `before`. */
struct flow_before {
    size_t step; /* the earlier step that reads the present values; its bit is in `reads` */
    const struct expr_template *now, *then;
    const struct expr_template *title; /* names the changed thing, evaluated like `now`; NULL:
                                        * none */
    bool is_by_item;                   /* that step makes one call for each of the same items */
};

struct flow_step_def {
    slice key;   /* [a-z][a-z0-9_]*, unique */
    slice label; /* the step's title, for people; SLICE_NONE if it has none, or for an approval */
    enum flow_step_type type;
    const struct expr *when; /* NULL: always */
    uint64_t reads;          /* the steps whose outputs its expressions name, one bit each */
    /* tool_call */
    slice tool;                        /* full tool name */
    const struct expr_template *input; /* an object */
    const struct expr *for_each;       /* NULL: one call; else an array, at most FLOW_ITEMS_MAX */
    unsigned concurrency;
    struct flow_retry retry;
    unsigned timeout_ms;                    /* for each attempt; 0: the action's time-out */
    const struct expr_template *connection; /* NULL, or a null value: the default connection */
    enum flow_confirm confirm;
    /* with FLOW_CONFIRM_APPROVAL: the index of the earlier approval step. If that step has a
     * `when`, this step has the same (lint) */
    size_t confirm_step;
    /* `when` reads a step after confirm_step: the approval shows that the call may be skipped. All
     * other values are known at the approval (lint) */
    bool is_when_late;
    struct flow_before before;
    /* transform */
    const struct expr *expr;
    /* wait: exactly one */
    const struct expr_template *wait_for;   /* seconds */
    const struct expr_template *wait_until; /* RFC 3339 */
    /* approval */
    const struct expr_template *title, *summary;
    slice title_text;                       /* as in the file; SLICE_NONE if it is not a string */
    const struct expr_template *expires_in; /* seconds; NULL: never */
};

/* The actions of the steps in the catalog with this serial, once they were asked for. */
struct flow_actions {
    uint64_t serial;
    const struct catalog_action **of;
};

struct flow_template {
    struct arena arena;
    unsigned refs;
    slice key, name, description;
    /* made from the input and the flow; NULL: the name is used */
    const struct expr_template *flow_title;
    struct uuid version;
    struct uuid whole; /* a hash like the version, including titles */
    slice body;        /* its JSON text, as stored; canonical: sorted keys, no space, no titles */
    const struct json *input_schema;
    const struct schema *schema;
    unsigned deadline_s; /* for the whole flow; 0: no deadline */
    bool writes;         /* a call does more than read; not known without a catalog */
    bool is_held;        /* of a held call: its key is FLOW_HELD_KEY */
    struct flow_step_def *steps;
    size_t step_count; /* at least 1 */
    struct flow_actions *actions;
    slice item_json; /* {key, name, description}, rendered once */
};

/* Compiles one text. Problems are added to the report (file, pointer, sentence). Returns NULL if
 * the template has an error. Tools must exist in the catalog, and constant inputs must fit them;
 * with a NULL catalog tools are not checked, for a stored version, which was checked when it was
 * new. */
struct flow_template *flow_template_compile(slice name, slice text, const struct catalog *catalog,
                                            struct catalog_report *report) MUST_CHECK;
/* Appends {key, name, description, input_schema, steps}: what a client needs to start a flow and to
 * know what it will do. A step has its key and type; a call its tool, with integration_id and
 * side_effect_level if the catalog has it, and its confirmation; an approval its title as
 * written. */
void flow_template_write_detail(struct buf *out, const struct flow_template *tmpl,
                                const struct catalog *catalog);
/* Returns the action of the step's call; NULL if the step makes none, if the catalog does not have
 * it, or if out of memory. It is looked up once for a snapshot of the catalog. */
const struct catalog_action *flow_template_action(const struct flow_template *tmpl,
                                                  const struct catalog *catalog, size_t step);
/* Sets *verdict to the strictest of the verdicts on its calls, as far as they are known without an
 * input: one hidden call hides the template, one that is always denied denies it, and one that is
 * always held and confirmed by no approval holds it. policy NULL: none. A tool that the catalog no
 * longer has does not count: its call fails. */
void flow_template_foresee(const struct flow_template *tmpl, const struct catalog *catalog,
                           struct policy *policy, struct policy_verdict *verdict);
/* Whether no flow of the template can be carried out: it is neither started nor offered. */
static inline bool flow_template_is_refused(const struct policy_verdict *verdict)
{
    return verdict->decision == POLICY_DENY || verdict->decision == POLICY_HOLD;
}
/* Steps of `to` get the titles of the steps of `from` with the same key and type. */
void flow_template_copy_titles(struct flow_template *to, const struct flow_template *from);
struct flow_template *flow_template_ref(struct flow_template *tmpl);
void flow_template_unref(struct flow_template *tmpl);

/* title.c */
/* Returns the display name of a step: its title, else its call ("Notion: Create a page"), else its
 * key as words. The text is valid as long as the template, the catalog and the arena exist. */
slice flow_step_title(const struct flow_step_def *step, const struct catalog *catalog,
                      struct arena *arena);

/* The built-in templates (contrib/templates, compiled in), then every *.json of dir/templates (dir
 * is the value of --catalog, or NULL). A later template replaces an earlier one with the same key.
 * Returns NULL with the reason in the report on failure. A template whose tools the catalog lacks
 * is an error, as in the catalog. */
struct flow_template_set {
    struct flow_template **items; /* sorted by key */
    size_t count;
    slice list_json; /* [{key, name, description}, ...] by key, rendered once */
    struct arena arena;
};
struct flow_template_set *flow_template_set_load(const char *dir, const struct catalog *catalog,
                                                 struct catalog_report *report) MUST_CHECK;
void flow_template_set_free(struct flow_template_set *set);
/* Returns the template, borrowed, or NULL if it is unknown. */
struct flow_template *flow_template_set_find(const struct flow_template_set *set, slice key);
/* Returns the nearest key to an unknown key, borrowed from the set; SLICE_NONE if none is near.
 * Templates that the policy denies are not named. */
slice flow_template_set_nearest(const struct flow_template_set *set, slice key,
                                const struct catalog *catalog, struct policy *policy);

#endif
