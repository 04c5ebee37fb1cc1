/*
 * Declarations shared by the files that compile a template: template.c (the file), template_step.c
 * (one step), template_lint.c (which names placeholders may use, what confirms a write),
 * template_tool.c (the checks against the catalog). Private to the flow room.
 */
#ifndef FLOW_TEMPLATE_READ_H
#define FLOW_TEMPLATE_READ_H

#include "catalog/reader.h"
#include "flow/template.h"

enum {
    FLOW_KEY_BYTES_MAX = 64,
    FLOW_SECONDS_MAX = 366 * 86400,
    FLOW_TIMEOUT_S_MAX = 600,
    FLOW_LABEL_CHARS_MAX = 80,
};

/* Returns the index of the step with that key, -1 if there is none. */
ptrdiff_t template_find_step(const struct flow_template *tmpl, slice key);

/* Reads one item of "steps" into tmpl->steps[index]; earlier steps are complete. */
void template_read_step(struct reader *parent, struct reader_path *path, const struct json *object,
                        struct flow_template *tmpl, size_t index);

/* Checks that every placeholder exists where it is used, and that every confirmed step is shown by
 * its approval. Sets is_when_late. r reads the step. */
void template_lint_step(struct reader *r, struct flow_template *tmpl, size_t index);
/* Checks that flow_title refers only to the input, and to the flow at its start. */
void template_lint_title(struct reader *r, struct flow_template *tmpl);
/* Checks that the input schema is closed, and has `confirm` if the start confirms a step. */
void template_lint_input(struct reader *r, const struct flow_template *tmpl);

/* Checks that the tool exists, that a write is confirmed, and that the constant members of the
 * input fit. input is that of the file. */
void template_check_tool(struct reader *r, struct flow_template *tmpl,
                         const struct flow_step_def *step, const struct catalog *catalog,
                         const struct json *input);

/* Sets *value to the value of a template without placeholders. Returns false if it has
 * placeholders, or if it cannot be evaluated, which is reported. */
bool template_constant(struct reader *r, const char *name, const struct expr_template *tmpl,
                       struct json *value);

#endif
