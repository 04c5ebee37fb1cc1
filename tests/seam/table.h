/*
 * table: which steps of an op's table have run, and which of its jumps were taken, by all ops of
 * that class in this program. A test of a state machine takes many paths through it, and finally
 * checks that the whole table was covered:
 *
 *   seam_table_watch();                                 // in main, before the tests
 *   ...
 *   assert_int_equal(seam_table_missing("flow"), 0);    // prints what was not covered
 */
#ifndef TESTS_SEAM_TABLE_H
#define TESTS_SEAM_TABLE_H

#include "loop/op.h"

void seam_table_watch(void);
/* The number of steps that have not run and of jumps that were not taken, each of which is printed.
 * An op of that class must have run. */
size_t seam_table_missing(const char *class_name);
/* The number of steps that ops of that class have run. */
size_t seam_table_steps(const char *class_name);
/* Cancels the op of that class that is about to run a step, after `steps` more steps of that class:
 * as if the turn's time had been over, and the cancel had come before the next turn. */
void seam_table_cancel(const char *class_name, size_t steps);
/* Whether that has happened. Otherwise it will not happen any more. */
bool seam_table_has_cancelled(void);

#endif
