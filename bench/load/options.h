/*
 * The options of a run of sluice-bench.
 */
#ifndef LOAD_OPTIONS_H
#define LOAD_OPTIONS_H

#include "load/peer.h"
#include "load/scenario.h"

enum { LOAD_PROCESSES_MAX = 64, LOAD_CONNECTIONS_MAX = 100000, LOAD_VARS_MAX = 32 };

struct load_options {
    const char *base, *ca_file, *json_file, *html_file;
    const char *key; /* overwritten in argv, which ps prints */
    char key_text[256];
    uint64_t connections, processes, duration_s, warmup_s;
    double rate; /* operations per second in an open loop; 0 for a closed loop */
    bool is_quiet, lists;
    struct {
        slice name, text;
    } vars[LOAD_VARS_MAX];
    size_t var_count;
    struct scenario *scenarios; /* SCENARIOS_MAX */
    unsigned weights[SCENARIOS_MAX];
    size_t scenario_count;
};

/* Parses the command line. Returns OK, or ERR_INVALID with a message. Sets *is_help if the caller
 * has to print the help and exit with 0. */
int load_options_parse(struct load_options *options, int argc, char **argv, bool *is_help,
                       struct err *err) MUST_CHECK;
void load_options_print_help(void);

#endif
