/*
 * flow_log: the history of a flow, in order: its starter, failed attempts, decisions with their
 * notes, resumes, and its present state or end.
 */
#ifndef WEB_FLOW_LOG_H
#define WEB_FLOW_LOG_H

#include "store/flow_read.h"
#include "web/flow_decision.h"
#include "flow/doer.h"

struct flow_template;
struct flow_log_event;
struct flow_log {
    struct flow_log_event *list;
    size_t count;
};

/* Makes the log from a flow's finished attempts. titles has those of the template's steps and is
 * borrowed; everything else is copied into the arena. Returns OK or ERR_NOMEM. */
int flow_log_read(struct flow_log *log, const struct flow_whole *whole,
                  const struct flow_template *tmpl, const slice *titles,
                  struct arena *arena) MUST_CHECK;
/* Lists the events whose person only the audit trail has, newest first, at most `max`: the cancel,
 * and new starts of failed steps, before each of which a person may have resumed the flow. Returns
 * their number. */
size_t flow_log_doers(const struct flow_log *log, struct flow_doer *doers, size_t max);
/* Sets the person of such an event, and for a resume its time. */
void flow_log_set_doer(struct flow_log *log, const struct flow_doer *doer, slice actor, int64_t at);
/* Lists the actors in the log, at most `max`. Returns their number. */
size_t flow_log_actors(const struct flow_log *log, slice *actors, size_t max);
/* Writes a member "log", as flow.html declares it. */
void flow_log_write(const struct flow_log *log, struct flow_names *names, struct json_writer *w);

#endif
