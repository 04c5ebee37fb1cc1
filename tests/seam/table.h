/*
 * table: which steps of an op's table have run, and which of its jumps were taken, by all ops of
 * that class in this program. A test of a machine goes through it in many ways and at its end asks
 * whether anything of the table was left out:
 *
 *   seam_table_watch();                                 // in main, before the tests
 *   ...
 *   assert_int_equal(seam_table_missing("flow"), 0);    // prints what has not been taken
 */
#ifndef TESTS_SEAM_TABLE_H
#define TESTS_SEAM_TABLE_H

#include "loop/op.h"

void seam_table_watch(void);
/* Steps that have not run and jumps that were not taken; each is printed. An op of that class must
 * have run. */
size_t seam_table_missing(const char *class_name);
/* How many steps ops of that class have run so far. */
size_t seam_table_steps(const char *class_name);

#endif
