/*
 * Commands of the program: main.c has the table, command.c reads a command line and runs what it
 * names, command_help.c prints the help.
 *
 * In `sluice accounts create NAME`, accounts is a command and create is one of its verbs. A command
 * without verbs (serve) has one verb without a name.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "config/config.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command;
struct command_verb;
struct session;
struct output_list;

/* One command line, read. */
struct command_call {
    const struct command *command;
    const struct command_verb *verb;
    struct config *config;
    struct config_args args; /* args.values belong to verb->options */
    int argc;                /* number of positional arguments */
    char **argv;
    char *const *line; /* the whole command line, starting with the program */
};

struct command_verb {
    const char *name; /* NULL for the only verb of a command without verbs */
    const char
        /* the arguments, whose number is checked: "ACCOUNT [ID]", "FILE..."; "": none */
        *synopsis;
    const char *summary; /* one sentence */
    /* One of body and run is set: a session's body (session_run), or a function that returns an
     * exit code and prints its own errors with command_fail. */
    int (*body)(struct session *session, struct command_call *call);
    const struct config_option *options; /* may be NULL */
    size_t option_count;
    const char *needs; /* a required option, or NULL; the verb itself reports that it is missing */
    int (*run)(struct command_call *call);
    const struct output_list *list; /* for session_list */
};

struct command {
    const char *name;
    const char *summary; /* one line, shown in the list of commands */
    const char *help;    /* paragraphs for --help, separated by \n; may be NULL */
    unsigned scopes;     /* groups of settings that the command reads (config/config.h) */
    const struct command_verb *verbs;
    size_t verb_count;
};

#define COMMAND_VERBS(array)   .verbs = (array), .verb_count = ARRAY_LEN(array)
#define COMMAND_OPTIONS(array) .options = (array), .option_count = ARRAY_LEN(array)
#define COMMAND_NO_OPTIONS     .options = NULL
/* For a verb whose only option is --json. */
#define COMMAND_JSON .options = &command_json, .option_count = 1
extern const struct config_option command_json;

/* Reads argv (argv[0] is the program) and runs the command; returns the exit code. `count`:
 * number of commands in the table. It also handles `help`, --help, -h, `version` and --version.
 * stdout is flushed: output that cannot be written fails the command. */
int command_main(const struct command *const *commands, size_t count, int argc, char **argv);

/* Returns the value of an option, or SLICE_NONE if it was not given; name is one of verb->options
 * (asserted). */
slice command_option(const struct command_call *call, const char *name);
bool command_has(const struct command_call *call, const char *name);
/* Both functions print "sluice accounts create: sentence" to stderr. command_fail returns
 * EXIT_FAILED; command_misuse is for wrong use, points to --help and returns EXIT_USAGE. */
int command_fail(const struct command_call *call, const char *fmt, ...) PRINTF_LIKE(2, 3);
int command_misuse(const struct command_call *call, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Prints the help to stdout or stderr (command_help.c). */
void command_help_all(FILE *out, const struct command *const *commands, size_t count);
/* Prints the help of a verb, or of the whole command if verb is NULL. */
void command_help(FILE *out, const struct command *command, const struct command_verb *verb);
extern const char command_version[];

#endif
