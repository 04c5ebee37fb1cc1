/*
 * The checks of `sluice doctor`: each prints one line with its finding and what to do.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "cli/output.h"
#include "cli/session.h"

enum doctor_mark { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL, DOCTOR_MARKS };

struct doctor {
    struct session *session;
    bool is_json, is_offline;
    char *const *apps; /* apps to call in addition to the connected apps */
    size_t app_count;
    struct json_text json; /* an open array */
    size_t counts[DOCTOR_MARKS];
};

/* Prints one finding. what: the thing that was checked, in one or two words. todo: a sentence that
 * says what to do; NULL if and only if nothing is wrong. found: a sentence without its full
 * stop. */
void doctor_say(struct doctor *doctor, enum doctor_mark mark, const char *what, const char *todo,
                const char *found, ...) PRINTF_LIKE(5, 6);

/* Checks the version, settings, schema and clock of the database, whether it has enough
 * connections, and the keys of the stored credentials. Leaves session->sync open if it could
 * connect. */
void doctor_check_database(struct doctor *doctor);
/* Checks trust roots and names, then sends one request without a credential to each origin of
 * the apps. */
void doctor_check_apps(struct doctor *doctor);

#endif
