/*
 * Shared by the files of the flows' rows.
 */
#ifndef TESTS_SEAM_ROWS_FLOW_H
#define TESTS_SEAM_ROWS_FLOW_H

#include "seam/rows.h"

/* The row of the query's account with the id in its parameter, or NULL. */
struct row_flow *seam_flow_of(struct seam_store *store, const struct pg_query *query,
                              const char *id);
/* The flow that the statement starts, and the row that it makes of it. */
struct flow seam_flow_started(struct seam_store *store, const struct pg_query *query);
int seam_flow_add(struct seam_store *store, struct pg_query *query, const struct flow *flow);
/* Changes a row; no other function does. ERR_INVALID: a CHECK of the table refuses the change. */
int seam_flow_set(struct seam_store *store, struct pg_query *query, struct row_flow *row,
                  const struct flow *after);
/* The columns of a whole row, and their number. */
size_t seam_flow_cells(const struct flow *flow, struct pg_value *cells);
bool seam_step_is_there(struct seam_store *store, struct uuid flow_id, int64_t step,
                        int64_t attempt);

#endif
