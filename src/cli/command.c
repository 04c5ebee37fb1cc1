/*
 * Command lines: finds the function and calls it; see command.h. For a mistake in the line it
 * prints one sentence to stderr that names the nearest command, verb or flag, and exits with code
 * 2, before anything has run.
 */
#include "cli/command.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>

#include "base/log.h"
#include "base/suggest.h"
#include "cli/session.h"
#include "cli/manual.h"
#include "cli/output.h"
#include "config/attach.h"

enum { SENTENCE_BYTES_MAX = 4096 };

const struct config_option command_json = {"json", NULL, "print JSON, for scripts"};

static void print_name(const struct command_call *call)
{
    (void)fprintf(stderr, "sluice %s", call->command->name);
    if (call->verb && call->verb->name)
        (void)fprintf(stderr, " %s", call->verb->name);
}

/* "sluice accounts create: sentence". It may quote a file, which is not to control the terminal. */
static void print_sentence(const struct command_call *call, const char *fmt, va_list args)
    PRINTF_LIKE(2, 0);
static void print_sentence(const struct command_call *call, const char *fmt, va_list args)
{
    char text[SENTENCE_BYTES_MAX];
    int len = vsnprintf(text, sizeof(text), fmt, args);
    print_name(call);
    (void)fputs(": ", stderr);
    output_text(stderr, len < 0 ? SLICE("out of memory") : slice_cstr(text));
    (void)fputc('\n', stderr);
}

int command_fail(const struct command_call *call, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_sentence(call, fmt, args);
    va_end(args);
    return EXIT_FAILED;
}

int command_misuse(const struct command_call *call, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_sentence(call, fmt, args);
    va_end(args);
    (void)fputc('`', stderr);
    print_name(call);
    (void)fputs(" --help` explains its use\n", stderr);
    return EXIT_USAGE;
}

slice command_option(const struct command_call *call, const char *name)
{
    for (size_t i = 0; i < call->verb->option_count; i++)
        if (strcmp(call->verb->options[i].name, name) == 0)
            return call->args.values[i];
    UNREACHABLE("a name from the table of options");
    return SLICE_NONE;
}

bool command_has(const struct command_call *call, const char *name)
{
    return command_option(call, name).ptr != NULL;
}

/* ---- finding the command ---- */

static bool is_help(const char *text)
{
    return strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0;
}

static bool asks_for_help(int argc, char **argv)
{
    /* Anything after -- is an argument, even if it looks like a flag. */
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_help(argv[i]))
            return true;
    return false;
}

static const struct command *find_command(const struct command *const *commands, size_t count,
                                          const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int unknown_command(const struct command *const *commands, size_t count, const char *name)
{
    struct suggest suggest;
    suggest_begin(&suggest, slice_cstr(name));
    for (size_t i = 0; i < count; i++)
        suggest_offer(&suggest, slice_cstr(commands[i]->name));
    (void)fprintf(stderr, "sluice: there is no command \"%s\"", name);
    if (suggest.best.len > 0)
        (void)fprintf(stderr, "; did you mean \"sluice %.*s\"?\n", SLICE_ARG(suggest.best));
    else
        (void)fprintf(stderr, "; `sluice --help` lists them\n");
    return EXIT_USAGE;
}

static const struct command_verb *find_verb(const struct command *command, const char *name)
{
    /* A command without verbs has one entry without a name. */
    if (!command->verbs[0].name)
        return &command->verbs[0];
    for (size_t i = 0; name && i < command->verb_count; i++)
        if (strcmp(command->verbs[i].name, name) == 0)
            return &command->verbs[i];
    return NULL;
}

static int unknown_verb(const struct command_call *call, const char *name)
{
    struct suggest suggest;
    /* If there is a flag where the verb should be, the verb is missing. */
    if (!name || name[0] == '-')
        return command_misuse(call, "a verb is missing");
    suggest_begin(&suggest, slice_cstr(name));
    for (size_t i = 0; i < call->command->verb_count; i++)
        suggest_offer(&suggest, slice_cstr(call->command->verbs[i].name));
    if (suggest.best.len == 0)
        return command_misuse(call, "there is no \"%s\"", name);
    return command_misuse(call, "there is no \"%s\"; did you mean \"%.*s\"?", name,
                          SLICE_ARG(suggest.best));
}

/* ---- running ---- */

/* Servers log as configured. Commands with a session write for a person, so they log only
 * warnings and errors, as do commands without log settings. */
static int open_log(const struct command_call *call, struct err *err)
{
    const struct config *config = call->config;
    enum log_level level = LOG_WARN;
    enum log_format format = LOG_TEXT;
    if (!call->verb->body && call->command->scopes & (CONFIG_SERVE | CONFIG_DEV)) {
        if (!log_level_parse(config->log_level, &level))
            return err_set(err, ERR_INVALID,
                           "log-level must be trace, debug, info, warn or error, got \"%.*s\"",
                           SLICE_ARG(config->log_level));
        bool is_json = slice_eq_cstr(config->log_format, "json");
        format = is_json ? LOG_JSON : LOG_TEXT;
        if (slice_eq_cstr(config->log_format, "auto"))
            format = LOG_AUTO;
        else if (!is_json && !slice_eq_cstr(config->log_format, "text"))
            return err_set(err, ERR_INVALID, "log-format must be json, text or auto, got \"%.*s\"",
                           SLICE_ARG(config->log_format));
    }
    log_init(level, format);
    return OK;
}

/* Counts the arguments in a synopsis: arguments in brackets are optional, "..." is any number. */
static void count_args(const char *synopsis, int *min, int *max)
{
    slice rest = slice_cstr(synopsis);
    *min = *max = 0;
    while (rest.len > 0) {
        slice word = slice_split(&rest, ' ');
        *min += word.ptr[0] != '[';
        *max = slice_ends_with(word, SLICE("...")) ? INT_MAX : *max + 1;
    }
}

static int check_count(const struct command_call *call)
{
    int min, max;
    count_args(call->verb->synopsis, &min, &max);
    /* The message contains the synopsis, which names the arguments. */
    if (call->argc < min)
        return command_misuse(call, "%s is missing: %s", call->argc == 0 ? "an argument" : "one",
                              call->verb->synopsis);
    if (call->argc > max && max == 0)
        return command_misuse(call, "it takes no arguments, got \"%s\"", call->argv[0]);
    if (call->argc > max)
        return command_misuse(call, "there is one argument too many: \"%s\"", call->argv[max]);
    return EXIT_OK;
}

static int run_call(struct command_call *call)
{
    struct err err = {.code = OK};
    struct config config;
    int result = EXIT_USAGE;
    call->config = &config;
    call->args.scopes = call->command->scopes;
    call->args.options = call->verb->options;
    call->args.option_count = call->verb->option_count;
    /* Settings are read before the arguments are counted, since flags may be between the
     * arguments. */
    if (config_init(&config, &err) != OK || config_read(&config, &call->args, &err) != OK ||
        open_log(call, &err) != OK) {
        result = command_misuse(call, "%s", err.text);
        goto out;
    }
    /* --data names the folder of a `sluice dev`: its settings replace those of the database and
     * the key. */
    bool is_attached = (call->command->scopes & CONFIG_DATABASE) && config.data_dir.len > 0;
    if (is_attached && config_attach(&config, &err) != OK) {
        result = command_fail(call, "%s", err.text);
        goto out;
    }
    call->argc = call->args.positional;
    call->argv = call->args.argv;
    result = check_count(call);
    if (result == EXIT_OK)
        result = call->verb->body ? session_run(call, call->verb->body) : call->verb->run(call);
/* config_deinit frees the texts that options point into, so it comes last. */
out:
    log_flush();
    config_deinit(&config);
    call->config = NULL;
    return result;
}

/* argv[0] is the command's name. */
static int run_command(const struct command *const *commands, size_t count, int argc, char **argv)
{
    struct command_call call = {.command = find_command(commands, count, argv[0]),
                                .line = argv - 1};
    if (!call.command)
        return unknown_command(commands, count, argv[0]);
    ASSERT(call.command->verb_count > 0);
    bool has_verbs = call.command->verbs[0].name != NULL;
    call.verb = find_verb(call.command, argc > 1 ? argv[1] : NULL);
    /* Help is printed even if a verb or an argument is missing. */
    if (asks_for_help(argc - 1, argv + 1)) {
        command_help(stdout, call.command, has_verbs ? call.verb : NULL);
        return EXIT_OK;
    }
    if (!call.verb)
        return unknown_verb(&call, argc > 1 ? argv[1] : NULL);
    call.args.argc = argc - 1 - has_verbs;
    call.args.argv = argv + 1 + has_verbs;
    return run_call(&call);
}

/* `sluice help accounts create` is the same as `sluice accounts create --help`; --man,
 * --man-conf and --bash, --zsh, --fish are for building packages. */
static int run_help(const struct command *const *commands, size_t count, int argc, char **argv)
{
    if (argc == 0) {
        command_help_all(stdout, commands, count);
        return EXIT_OK;
    }
    if (strncmp(argv[0], "--", 2) == 0 &&
        manual_print(stdout, slice_cstr(argv[0] + 2), commands, count))
        return EXIT_OK;
    const struct command *command = find_command(commands, count, argv[0]);
    if (!command)
        return unknown_command(commands, count, argv[0]);
    bool has_verbs = command->verbs[0].name != NULL;
    command_help(stdout, command, argc > 1 && has_verbs ? find_verb(command, argv[1]) : NULL);
    return EXIT_OK;
}

/* Runs the whole line: a command, or one of the program's own words, help and version. */
static int run_any(const struct command *const *commands, size_t count, int argc, char **argv)
{
    /* Without a command the help goes to stderr, and the exit code is that of misuse. */
    if (argc < 2) {
        command_help_all(stderr, commands, count);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 || is_help(argv[1]))
        return run_help(commands, count, argc - 2, argv + 2);
    if (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0) {
        (void)printf("sluice %s\n", command_version);
        return EXIT_OK;
    }
    return run_command(commands, count, argc - 1, argv + 1);
}

int command_main(const struct command *const *commands, size_t count, int argc, char **argv)
{
    ASSERT(argc > 0);
    int result = run_any(commands, count, argc, argv);
    /* stdout may be a pipe or a full disk; lost output must not look like success. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fprintf(stderr, "sluice: cannot write the output: %s\n", strerror(errno));
        return result == EXIT_OK ? EXIT_FAILED : result;
    }
    return result;
}
