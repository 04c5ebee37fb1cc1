/*
 * policy: what an API key may do, by tool and argument (src/policy/README.md). A policy is a list
 * of rules; the first rule whose conditions all hold decides about a call, otherwise the policy's
 * default does.
 *
 * A struct policy is one compiled revision. It is immutable, apart from a memo of three bytes an
 * action that is filled when it is first asked for, and counted by references. Deciding does no I/O
 * and takes limited time (POLICY_VISITS_MAX).
 *
 * NULL is the policy of a key that has none: all is allowed as it is without policies. Functions
 * that take a policy test for it inline, so that such a key pays a branch.
 */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "store/policy.h"

struct arena;
struct catalog;
struct catalog_action;
struct catalog_report;
struct json;
struct json_writer;

enum {
    POLICY_BODY_BYTES_MAX = 64 * 1024,
    POLICY_RULES_MAX = 100,
    POLICY_GLOBS_MAX = 50,      /* a rule; as many domains */
    POLICY_GLOBS_ALL_MAX = 500, /* all rules: each is compared with every action in one turn */
    POLICY_REASON_MAX = 500,    /* characters */
    POLICY_LABEL_MAX = POLICY_NAME_MAX + 1 + 20,
    /* The work of one decision: visits of expr.h, shared by all of its conditions. A condition that
     * needs more cannot be evaluated. */
    POLICY_VISITS_MAX = 20000,
    /* the memory of a compiled policy, without its memo */
    POLICY_ARENA_BYTES_MAX = 1024 * 1024,
};

/* In order of strictness. DEPENDS is returned by policy_foresee alone. */
enum policy_decision { POLICY_ALLOW, POLICY_CONFIRM, POLICY_DENY, POLICY_DEPENDS };

enum {
    POLICY_RULE_DEFAULT = -1, /* no rule: the policy's default, or there is no policy */
    POLICY_RULE_SEVERAL = -2, /* more than one of them can decide */
};

struct policy_verdict {
    enum policy_decision decision;
    int rule;     /* index of the rule that decides, or POLICY_RULE_* */
    slice reason; /* the rule's text for people, borrowed from the policy; SLICE_NONE if none */
    /* The action is unknown to the caller everywhere. It is a property of the action: true of all
     * calls of it or of none, and only with POLICY_DENY. */
    bool is_hidden;
    /* The deny rests on a condition that could not be evaluated: answer it after the input was
     * validated. */
    bool is_unsure;
    /* A confirmation is required (CONFIRM); of policy_foresee: for some inputs */
    bool may_confirm;
    uint32_t visits; /* the work that it took (POLICY_VISITS_MAX) */
};

struct policy;

/* Compiles a document (src/policy/README.md "Format"); it is not kept. label is "name@rev", or
 * SLICE_NONE for a draft. Returns NULL if the report has an error: each fault of the document with
 * its JSON Pointer, as in manifests. A lack of memory is an error of the report, too. */
struct policy *policy_compile(const struct json *document, slice label,
                              struct catalog_report *report) MUST_CHECK;
/* Parses and compiles the text of a document, of at most POLICY_BODY_BYTES_MAX bytes. `source` is
 * named in the report: a file, or SLICE_NONE. */
struct policy *policy_compile_text(slice source, slice text, slice label,
                                   struct catalog_report *report) MUST_CHECK;
/* Returns what a key gets whose policy no longer exists: it denies everything. It is static:
 * references to it are not counted. */
struct policy *policy_denies_all(void);
/* The same for a policy that exists and cannot be compiled: it is of a later version, or there is
 * no memory for it. */
struct policy *policy_unreadable(void);
/* Returns the memory of a compiled policy, without its memo; policy is not NULL. */
size_t policy_bytes(const struct policy *policy);

/* Both accept NULL. Only one thread at a time may use a policy. */
struct policy *policy_ref(struct policy *policy);
void policy_unref(struct policy *policy);
/* Returns "name@rev", SLICE_NONE for a draft and for NULL; "gone" and
 * "unreadable" for the two above. */
slice policy_label(const struct policy *policy);
/* Whether text is the name of a policy: [a-z][a-z0-9-]{0,62}, but not "test". */
bool policy_is_name(slice text);
/* "allow", "confirm", "deny", "depends" */
const char *policy_decision_name(enum policy_decision decision);

/* Called by the inline functions below; policy is not NULL. */
void policy_decide_by(struct policy *policy, const struct catalog_action *action,
                      const struct json *input, slice user, struct policy_verdict *verdict);
void policy_foresee_by(struct policy *policy, const struct catalog_action *action,
                       struct policy_verdict *verdict);

/* Decides about one call. action has been looked up (catalog_find_action); input is an object,
 * after schema_drop_nulls; user is the account's id of the end user for whom the call is made,
 * SLICE_NONE without one. */
static inline void policy_decide(struct policy *policy, const struct catalog_action *action,
                                 const struct json *input, slice user,
                                 struct policy_verdict *verdict)
{
    *verdict = (struct policy_verdict){.rule = POLICY_RULE_DEFAULT};
    if (policy)
        policy_decide_by(policy, action, input, user, verdict);
}

/* Decides what all calls of an action have in common: their decision, or POLICY_DEPENDS. action may
 * be a head (catalog.h); it is looked up if the policy asks for its recipients. */
static inline void policy_foresee(struct policy *policy, const struct catalog_action *action,
                                  struct policy_verdict *verdict)
{
    *verdict = (struct policy_verdict){.rule = POLICY_RULE_DEFAULT};
    if (policy)
        policy_foresee_by(policy, action, verdict);
}

/* Whether the action is unknown to the caller. */
static inline bool policy_hides(struct policy *policy, const struct catalog_action *action)
{
    struct policy_verdict verdict;
    policy_foresee(policy, action, &verdict);
    return verdict.is_hidden;
}

/* Whether all calls of the action are denied, hidden ones included: its stored outputs are not
 * given either. */
static inline bool policy_denies(struct policy *policy, const struct catalog_action *action)
{
    struct policy_verdict verdict;
    policy_foresee(policy, action, &verdict);
    return verdict.decision == POLICY_DENY;
}

/* Writes "decision" and "rule" (its index; null if there is none, or several) as members of the
 * open object: of an action's detail and of a tool. */
void policy_put_decision(struct json_writer *w, const struct policy_verdict *verdict);
/* Writes these, "reason" (null if there is none) and "unsure": the answer to a test. */
void policy_put_verdict(struct json_writer *w, const struct policy_verdict *verdict);

/* Decides about a call of the tool, by its full name, as a server would; input NULL: foresees.
 * Returns ERR_NOTFOUND with a sentence in err if there is no such tool, or ERR_NOMEM. scratch holds
 * the input without its nulls. */
int policy_test(struct policy *policy, const struct catalog *catalog, slice tool,
                const struct json *input, slice user, struct arena *scratch,
                struct policy_verdict *verdict, struct err *err) MUST_CHECK;

/* Adds a warning to the report for each rule that matches no action of the catalog, to which
 * earlier rules leave nothing to decide, whose `recipients_outside` matches actions without
 * recipients, or whose `when` fails for an example of a matching action. It looks up the matching
 * actions, which takes long: for commands, not for requests. Returns OK or
 * ERR_NOMEM. */
int policy_lint(const struct policy *policy, const struct catalog *catalog, slice source,
                struct catalog_report *report) MUST_CHECK;

#endif
