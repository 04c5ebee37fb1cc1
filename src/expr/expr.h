/*
 * expr: JMESPath (the whole grammar of the public compliance suite, legacy literals too) with one
 * documented extension, `$` = the root value, and `${ expr }` templates over JSON trees.
 *
 * An expression is compiled once, when a manifest or a flow template loads, and is immutable
 * afterwards: any number of evaluations may use it. Evaluation allocates only in the arena it is
 * given, always terminates, and is bounded by a struct expr_budget. Limits: source EXPR_SOURCE_MAX
 * bytes, EXPR_DEPTH_MAX nested nodes, EXPR_ARGS_MAX arguments, EXPR_VISITS_MAX node visits,
 * EXPR_BYTES_MAX bytes of output.
 *
 * Where the reference implementations disagree with the specification, the specification wins:
 * `!a.b` is `!(a.b)`, and a projection continues after a multiselect (`a[*].{x: b}.x`).
 *
 * Functions: the 26 of the JMESPath specification (abs avg ceil contains ends_with floor join keys
 * length map max max_by merge min min_by not_null reverse sort sort_by starts_with sum to_array
 * to_number to_string type values), and these, all pure:
 *
 *   ascii_json(array|object) -> string     as JSON in ASCII, fit for a header: DEL and all other
 *                                          characters are written as \uXXXX
 *   base64(string) -> string               RFC 4648 4, with padding, of the UTF-8 bytes
 *   base64url(string) -> string            RFC 4648 5, without padding
 *   base64url_decode(string) -> string     padding optional; bytes not in UTF-8 become U+FFFD
 *   truncate(string, number max[, string suffix]) -> string
 *                                          at most max code points; a text that was cut ends in
 *                                          suffix (default U+2026), which counts towards max
 *   counted(array|number|null, string noun[, string plural]) -> string
 *                                          "No folders." (for null, too), "1 folder", "12 folders";
 *                                          an English plural if none is given
 *   unescape_html(string) -> string        HTML's character references are resolved, once:
 *                                          &amp; &lt; &gt; &quot; &apos;, the names of Latin-1 and
 *                                          of common punctuation, &#39; and &#x27;; any other
 *                                          text stays
 *   html_text(string) -> string            a page's text: no tags, scripts or styles, white
 *                                          space collapsed, a line per block, "- " before an item,
 *                                          "text (https://...)" for a link
 *   uuid5(string namespace, string name) -> string
 *                                          RFC 9562 5.5; namespace: a UUID, or dns, url, oid, x500
 *   format_time(string|number time, string format[, string unit]) -> string, always UTC
 *                                          time: RFC 3339 text, or a number since 1970 in unit
 *                                          's' (default) or 'ms'; format: 'rfc3339', 'date',
 *                                          'http', 'mail' (RFC 5322), or a text with %Y %m %d %H
 *                                          %M %S %L (milliseconds) %y %e %j %a %A %b %B %I %p %F
 *                                          %T %s %z %Z %%
 *   mail_addresses(string|array|null to) -> string|null: to whom mime_message addresses a mail,
 *                                          without names; null if none, or if one is not valid
 *   mail_text(object|null part) -> string|null
 *                                          the sender's text, from Gmail's `payload`: the inline
 *                                          texts, plain ones if there are any, else HTML
 *                                          (html_text), without attached files and mails and what
 *                                          cannot be decoded
 *   mail_parts(object|null part) -> array  it and all parts below it, in order
 *   message_ids(string|null field) -> string|null
 *                                          the message ids in a mail's Message-ID, In-Reply-To or
 *                                          References that mime_message accepts; null if none
 *   mime_message(object) -> string         an RFC 5322 message, see mime/mime.h
 *   money(number|null amount, string currency) -> string|null
 *                                          an amount in the currency's smallest unit, a whole
 *                                          number, as people write it: money(`2000`, 'usd') is
 *                                          "20.00 USD", money(`500`, 'jpy') is "500 JPY"
 *   one_line(string|null) -> string|null   each run of line breaks and other control characters
 *                                          becomes a space, as mime_message needs it
 *   quote(string) -> string                the text in double quotes, with a backslash before each
 *                                          double quote and backslash in it: as in headers
 *                                          (RFC 9110 5.6.4), GraphQL and searches
 *   quote_odata(string) -> string          the text in single quotes, with each single quote in it
 *                                          doubled, as in $filter
 *   word_after(string|null text, string marker) -> string|null
 *                                          the word after the text's first marker, up to white
 *                                          space: for a time to retry in an app's message
 *   url_query(string|null url, string name) -> string|null
 *                                          the value of the URL's first query parameter of that
 *                                          name, decoded
 *   url_segment(string|null url, string pattern) -> string|null
 *                                          the part at the * if the URL's path ends like the
 *                                          pattern: '/query/' and a *; one segment, decoded
 *   link_url(string|null field, string rel) -> string|null
 *                                          the first URL of a Link header of that relation
 *                                          (RFC 8288)
 *   items(object) -> array                 its members as pairs: [["a", 1], ["b", 2]]
 *   from_items(array) -> object            the reverse; of equal names the last
 *   header(array|null fields, string name) -> any|null
 *                                          the `value` of the first object whose `name` is the
 *                                          wanted one, without regard to case
 */
#ifndef EXPR_EXPR_H
#define EXPR_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "json/json.h"

enum {
    EXPR_SOURCE_MAX = 4096,
    EXPR_DEPTH_MAX = 64,
    EXPR_ARGS_MAX = 32,
    EXPR_VISITS_MAX = 1000000,
    EXPR_BYTES_MAX = 1024 * 1024,
    EXPR_WORDS_MAX = 200,
};

/* The kind of failure, in the terms of the compliance suite; finer than enum err_code. */
enum expr_fault {
    EXPR_FAULT_NONE,
    EXPR_FAULT_SYNTAX,           /* ERR_SYNTAX */
    EXPR_FAULT_TYPE,             /* ERR_INVALID; "invalid-type" */
    EXPR_FAULT_ARITY,            /* ERR_INVALID; "invalid-arity" */
    EXPR_FAULT_VALUE,            /* ERR_INVALID; "invalid-value" */
    EXPR_FAULT_UNKNOWN_FUNCTION, /* ERR_NOTFOUND; "unknown-function" */
    EXPR_FAULT_LIMIT,            /* ERR_LIMIT: a budget or compile limit was exceeded; "limit" */
    EXPR_FAULT_MEMORY,           /* ERR_NOMEM; "memory" */
};

const char *expr_fault_name(enum expr_fault fault);

struct expr;

/* Compiles into the arena (the source is copied). Returns NULL on failure, with *err set; its text
 * names the offset in the source. Unknown functions, wrong argument counts, expression references
 * in the wrong place and slices of step 0 are found here. */
struct expr *expr_compile(struct arena *arena, slice source, struct err *err) MUST_CHECK;
/* Like expr_compile, but also sets *fault (may be NULL) to the category of an error. */
struct expr *expr_compile_fault(struct arena *arena, slice source, enum expr_fault *fault,
                                struct err *err) MUST_CHECK;
/* Returns the source text, which lives as long as the expression. */
slice expr_source(const struct expr *expr);

/* A budget of work. Several evaluations, such as those of a template, may share a budget. A visit
 * is a node evaluated, an item read, or 32 bytes of text scanned. bytes_built counts text as
 * functions build it, bytes_result the size of results as JSON text (escapes not counted); each is
 * limited by bytes_max. A result that is only a part of the input (a path) is not counted. */
struct expr_budget {
    uint64_t visits, visits_max;
    size_t bytes_built, bytes_result, bytes_max;
    enum expr_fault fault; /* the cause of the last failed evaluation */
    /* What was wrong, for readers who do not know the expression: it names neither the expression
     * nor a function. The text is put after "... cannot be made: ". */
    char words[EXPR_WORDS_MAX];
};

/* Sets the limits to EXPR_VISITS_MAX and EXPR_BYTES_MAX, with nothing used. */
void expr_budget_init(struct expr_budget *budget);
/* Raises the limits enough to encode that many bytes of data twice (base64 in base64), and for
 * the result. */
void expr_budget_add_data(struct expr_budget *budget, size_t bytes);

/* Evaluates against `current` (`@`) with `root` (`$`), which are often the same; NULL means JSON
 * null. *result shares sub-values with root, current and the expression's own literals: all
 * three must outlive it, or the caller copies it with json_dup. On failure *result is null, *err
 * says what failed and where, and budget->fault has the category. Results are at most
 * JSON_DEPTH_MAX deep. */
int expr_eval(const struct expr *expr, const struct json *root, const struct json *current,
              struct expr_budget *budget, struct arena *arena, struct json *result,
              struct err *err) MUST_CHECK;

/* Finds a fault that an evaluation has with any values of the members that root does not have yet:
 * it evaluates, with root as `$` and `@`, the parts that read only members of root and that every
 * evaluation reaches. Of the argument of mime_message, the known members are checked. The result
 * and errors are those of expr_eval. */
int expr_check_known(const struct expr *expr, const struct json *root, struct expr_budget *budget,
                     struct arena *arena, struct err *err) MUST_CHECK;

/* Whether the value is true in JMESPath: null, false, "", [] and {} are false, everything else is
 * true. Used for `when`. */
bool expr_is_true(const struct json *value);

/* One path that an expression reads from the root, up to the point where it is no longer a plain
 * chain of names: `input.messages[].id` gives {"input", "messages"}; a lone `$` (or `@`) gives
 * count 0. The names live as long as the expression. A path may be reported more than once.
 * Return false to stop. */
typedef bool (*expr_path_fn)(void *user, const slice *names, size_t count);
/* Calls on_path for each path, assuming that the evaluation starts with current == root. Lint
 * uses it to check that every placeholder exists. */
void expr_root_names(const struct expr *expr, expr_path_fn on_path, void *user);

/* Whether the expression is a chain of names, `input.due`, that leads to an existing null. */
bool expr_names_null(const struct expr *expr, const struct json *root);

/* If the expression is a chain of names, appends its path as a JSON Pointer; otherwise appends
 * nothing. */
void expr_write_pointer(const struct expr *expr, struct buf *out);

/* Applies the expression to samples of its data: the first item of an array represents all items,
 * and null means any value. Returns ERR_NOTFOUND, with *err set, if any part of the expression,
 * even one that an evaluation may skip, names a member that the sample does not have. *result is a
 * sample of the result, or NULL if that is unknown; it is valid as long as the samples, the
 * expression and the arena. */
int expr_sample(const struct expr *expr, const struct json *root, const struct json *current,
                struct arena *arena, const struct json **result, struct err *err) MUST_CHECK;

/* ---- templates ---- A JSON tree whose strings may hold `${ expr }`. A string that is one `${...}`
 * keeps the value's type. Inside a longer string, strings are inserted unchanged, numbers and
 * booleans as JSON text; null, arrays and objects are an error that names the expression. The
 * closing brace is found by JMESPath's own lexer, so `${ {a: '}'} }` works. `$${` is a literal
 * `${`. Member names are literal: one that holds `${` is refused. */

struct expr_template;

/* Returns the offset of the brace that closes the expression at the start of text, found by the
 * lexer so that braces in quotes, literals and hashes do not count; -1 with *why if there is
 * none. */
ptrdiff_t expr_closing_brace(slice text, const char **why) MUST_CHECK;

/* Compiles into the arena; the tree's strings and placeholder-free parts are borrowed, so the
 * tree must live as long as the template. Returns NULL with *err, which says what is wrong and
 * where in the tree (RFC 6901 pointer). */
struct expr_template *expr_template_compile(struct arena *arena, const struct json *tree,
                                            struct err *err) MUST_CHECK;
/* Like expr_template_compile, for a tree that is one string; text is borrowed. */
struct expr_template *expr_template_compile_text(struct arena *arena, slice text,
                                                 struct err *err) MUST_CHECK;

enum {
    /* An object member whose value is one `${...}` that gives null is omitted (by default it
     * stays as null); so is an array item. */
    EXPR_DROP_NULL_MEMBERS = 1,
    /* Exception to EXPR_DROP_NULL_MEMBERS: if the `${...}` is a chain of names (`${input.due}`) and
     * the input has a null there, the null stays, because the caller gave it. */
    EXPR_KEEP_GIVEN_NULLS = 4,
    /* Each `${...}` inside a longer text is percent-encoded as one path segment (RFC 3986 3.3);
     * "", "." and ".." are errors. */
    EXPR_PATH_SEGMENTS = 2,
};

/* Evaluates with root as both `$` and `@`. *result is as for expr_eval; it also shares the parts
 * without placeholders with the tree. err (may be NULL) names the position and the expression. */
int expr_template_eval(const struct expr_template *tmpl, const struct json *root, unsigned flags,
                       struct expr_budget *budget, struct arena *arena, struct json *result,
                       struct err *err) MUST_CHECK;

/* Whether the template has no placeholder. */
bool expr_template_is_constant(const struct expr_template *tmpl);

/* where is an RFC 6901 pointer into the tree, which lives as long as the template. Return false to
 * stop. */
typedef bool (*expr_template_fn)(void *user, const struct expr *expr, slice where);
/* Returns the first expression whose placeholder is between quotes, double or single, in the text
 * around it: a value with such a quote would end the quoted text. If only is not NULL, only the
 * strings at that pointer are searched. Returns NULL if there is none. */
const struct expr *expr_template_quoted(const struct expr_template *tmpl, const char *only);
/* Calls on_expr for each expression, in document order. */
void expr_template_each_expr(const struct expr_template *tmpl, expr_template_fn on_expr,
                             void *user);

#endif
