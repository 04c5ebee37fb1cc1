/*
 * Progress of `sluice dev` on the terminal: one line per stage, with its duration.
 */
#ifndef DEV_STAGE_H
#define DEV_STAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct dev_stages {
    FILE *out; /* NULL: silent */
    uint64_t first_ns, began_ns;
    bool is_open;      /* a stage is under way */
    const char *later; /* text of the stage, if it is not printed yet */
};

void dev_stages_init(struct dev_stages *stages, FILE *out);
/* Ends the previous stage and begins the next; `text` describes it. Does nothing if stages is
 * NULL. */
void dev_stage(struct dev_stages *stages, const char *text);
/* Like dev_stage, for a stage that itself writes to the terminal: its line is printed when it
 * ends. */
void dev_stage_later(struct dev_stages *stages, const char *text);
/* Ends the last stage, which has succeeded. */
void dev_stages_end(struct dev_stages *stages);
/* Ends the stage's line after a failure; the caller prints the error. */
void dev_stages_fail(struct dev_stages *stages);
double dev_stages_seconds(const struct dev_stages *stages);

#endif
