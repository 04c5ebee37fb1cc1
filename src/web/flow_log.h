/*
 * flow_log: what happened to a flow, in order: who started it, attempts that failed, what was
 * decided by whom and with which note, how it stands or ended.
 */
#ifndef WEB_FLOW_LOG_H
#define WEB_FLOW_LOG_H

#include "store/flow_read.h"
#include "web/flow_decision.h"

struct flow_template;
struct flow_log_event;
struct flow_log {
    struct flow_log_event *list;
    size_t count;
};

/* Of a flow's finished attempts; titles: of the template's steps, borrowed. All else is copied into
 * the arena. ERR_NOMEM. */
int flow_log_read(struct flow_log *log, const struct flow_whole *whole,
                  const struct flow_template *tmpl, const slice *titles,
                  struct arena *arena) MUST_CHECK;
/* Of a flow that was cancelled: by whom. */
void flow_log_set_canceller(struct flow_log *log, slice actor);
/* The actors that it names, at most `max`. Returns how many. */
size_t flow_log_actors(const struct flow_log *log, slice *actors, size_t max);
/* A member "log", as flow.html declares it. */
void flow_log_write(const struct flow_log *log, struct flow_names *names, struct json_writer *w);

#endif
