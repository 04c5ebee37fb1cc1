/*
 * Scenarios as data (bench/scenarios/README.md): one operation is a list of requests, each
 * rendered once, with gaps for the values that differ from run to run.
 */
#ifndef LOAD_SCENARIO_H
#define LOAD_SCENARIO_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "json/json.h"

enum {
    SCENARIO_STEPS_MAX = 16,
    SCENARIO_PARTS_MAX = 32,
    SCENARIO_VALUES_MAX = 8,
    SCENARIO_VALUE_BYTES_MAX = 128,
    SCENARIO_BYTES_MAX = 1024 * 1024,
    SCENARIOS_MAX = 16, /* in a mix */
};

/* The value of `${name}` in this run of the operation. */
struct scenario_value {
    char text[SCENARIO_VALUE_BYTES_MAX];
    size_t len;
};

/* Literal text, followed by the value (if any). */
struct scenario_part {
    slice literal;
    int value;      /* index of the name, or one of the values below; -1: no value */
    uint64_t count; /* of ${unique%count}: the number counts from 0 to below it; 0: it is unique */
};
enum { SCENARIO_UNIQUE = -2, SCENARIO_CONNECTION = -3, SCENARIO_HOST = -4, SCENARIO_KEY = -5 };

struct scenario_text {
    struct scenario_part parts[SCENARIO_PARTS_MAX];
    size_t count;
};

struct scenario_capture {
    int value;
    slice pointer; /* RFC 6901 pointer into the reply */
};

struct scenario_step {
    /* The head without the digits of Content-Length and what follows; or all of it, if there is
     * no body. */
    struct scenario_text head;
    struct scenario_text body; /* without parts: there is none */
    unsigned expect;           /* the expected status */
    struct scenario_capture captures[SCENARIO_VALUES_MAX];
    size_t capture_count;
    /* The request is repeated until the member at the pointer is this text; SLICE_NONE: it is sent
     * once. */
    slice until_pointer, until_text, fail_text;
    bool is_each; /* prepare only: uses ${connection}, so it is sent once per connection */
};

struct scenario {
    struct arena arena;
    slice name, description;
    slice names[SCENARIO_VALUES_MAX];
    size_t name_count;
    /* run before the load; values that they capture are available in every operation */
    struct scenario_step prepare[SCENARIO_STEPS_MAX];
    size_t prepare_count;
    struct scenario_step steps[SCENARIO_STEPS_MAX];
    size_t step_count;
    /* given with --var, or captured by prepare */
    struct scenario_value values[SCENARIO_VALUES_MAX];
};

/* Loads a scenario. name: a built-in scenario, or a file if it contains '/' or ".json". A message
 * in err names the file and the position. */
int scenario_load(struct scenario *scenario, const char *name, struct err *err) MUST_CHECK;
void scenario_deinit(struct scenario *scenario);
/* Sets a value that was given on the command line; names that the scenario does not use are
 * ignored. Returns OK, ERR_LIMIT or ERR_INVALID. */
int scenario_set(struct scenario *scenario, slice name, slice text, struct err *err) MUST_CHECK;
/* Checks that every name has a value, either given, or captured by a request before its first use.
 * Otherwise returns ERR_INVALID; err has the first name without a value. */
int scenario_check(const struct scenario *scenario, struct err *err) MUST_CHECK;
/* Prints names and descriptions of the built-in scenarios, one per line. */
void scenario_print_all(void);

struct scenario_context {
    slice host, key; /* the Host header and the API key */
    const struct scenario_value *values;
    uint64_t unique;
    uint64_t connection; /* number of the connection among those of all processes, from 0 */
};
/* Appends the complete request. */
void scenario_write(const struct scenario_step *step, const struct scenario_context *context,
                    struct buf *out);

enum scenario_verdict { SCENARIO_GO_ON, SCENARIO_AGAIN, SCENARIO_WRONG };
/* Returns whether the step needs the body of its reply. */
bool scenario_reads_body(const struct scenario_step *step);
/* Checks a reply against the step and stores the captures in `values`. If the reply is wrong, `why`
 * says what is wrong with it. */
enum scenario_verdict scenario_check_reply(const struct scenario_step *step, unsigned status,
                                           slice body, struct scenario_value *values,
                                           struct arena *arena, struct err *why);

#endif
