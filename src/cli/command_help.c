/*
 * Prints the output of --help: usage lines from the table of verbs, the command's paragraphs, and
 * its settings.
 */
#include <stdarg.h>

#include "base/version.h"
#include "cli/command.h"

enum { NAME_WIDTH = 15, USAGE_WIDTH = 79, USAGE_INDENT = 14 };

const char command_version[] = SLUICE_VERSION;

void command_help_all(FILE *out, const struct command *const *commands, size_t count)
{
    (void)fprintf(out, "sluice runs actions on third-party apps for agents.\n\n"
                       "usage: sluice COMMAND ...\n\n");
    for (size_t i = 0; i < count; i++)
        (void)fprintf(out, "  %-*s%s\n", NAME_WIDTH, commands[i]->name, commands[i]->summary);
    (void)fprintf(out, "  %-*s%s\n", NAME_WIDTH, "version", "print the version");
    (void)fprintf(out, "\n`sluice COMMAND --help` explains one. Try `sluice dev` first.\n");
}

/* Prints a part of the usage line, on the next line if this one is full. */
static void print_part(FILE *out, int *column, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void print_part(FILE *out, int *column, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (*column + 1 + len > USAGE_WIDTH)
        *column = fprintf(out, "\n%*s", USAGE_INDENT - 1, "") - 1;
    *column += fprintf(out, " %s", text);
}

static void print_usage(FILE *out, const struct command *command, const struct command_verb *verb)
{
    int column = fprintf(out, "usage: sluice");
    print_part(out, &column, "%s", command->name);
    if (verb->name)
        print_part(out, &column, "%s", verb->name);
    if (verb->synopsis[0])
        print_part(out, &column, "%s", verb->synopsis);
    for (size_t i = 0; i < verb->option_count; i++) {
        const struct config_option *option = &verb->options[i];
        /* Brackets mark optional flags. */
        bool is_needed = verb->needs && strcmp(verb->needs, option->name) == 0;
        print_part(out, &column, is_needed ? "--%s%s%s" : "[--%s%s%s]", option->name,
                   option->value_name ? " " : "", option->value_name ? option->value_name : "");
    }
    /* Settings are listed below the options, once for all verbs. */
    if (command->scopes)
        print_part(out, &column, "[SETTINGS]");
    (void)fputc('\n', out);
}

static void print_verb(FILE *out, const struct command *command, const struct command_verb *verb)
{
    print_usage(out, command, verb);
    config_print_wrapped(out, 2, verb->summary);
    if (verb->option_count > 0) {
        (void)fputc('\n', out);
        config_print_options(out, verb->options, verb->option_count);
    }
}

static void print_paragraphs(FILE *out, const char *help)
{
    /* Each line of the table's text is a paragraph and is wrapped separately. */
    slice rest = slice_cstr(help);
    while (rest.len > 0) {
        char text[2048];
        slice one = slice_split(&rest, '\n');
        (void)snprintf(text, sizeof(text), "%.*s", SLICE_ARG(one));
        (void)fputc('\n', out);
        config_print_wrapped(out, 0, text);
    }
}

void command_help(FILE *out, const struct command *command, const struct command_verb *verb)
{
    if (verb) {
        print_verb(out, command, verb);
    } else {
        /* Without a verb, prints the usage of all verbs. */
        for (size_t i = 0; i < command->verb_count; i++) {
            if (i > 0)
                (void)fputc('\n', out);
            print_verb(out, command, &command->verbs[i]);
        }
    }
    print_paragraphs(out, command->help);
    if (command->scopes == 0)
        return;
    (void)fprintf(out, "\nsettings:\n");
    config_print_help(out, command->scopes);
}
