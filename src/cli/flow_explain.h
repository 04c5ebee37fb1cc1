/*
 * `sluice flow explain`: explains in sentences why a flow does not move.
 */
#ifndef CLI_FLOW_EXPLAIN_H
#define CLI_FLOW_EXPLAIN_H

#include "cli/session.h"

/* Prints the explanation. session->sync is open. */
int flow_explain(struct session *session, slice id_text, bool as_json) MUST_CHECK;

#endif
