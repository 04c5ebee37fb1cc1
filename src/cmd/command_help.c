/*
 * What --help prints.
 */
#include "cmd/command.h"

enum { NAME_WIDTH = 13 };

const char command_version[] = "0.1.0";

void command_help_all(FILE *out, const struct command *const *commands, size_t count)
{
    (void)fprintf(out, "sluice runs actions on third-party apps for agents.\n\n"
                       "usage: sluice COMMAND ...\n\n");
    for (size_t i = 0; i < count; i++)
        (void)fprintf(out, "  %-*s%s\n", NAME_WIDTH, commands[i]->name, commands[i]->summary);
    (void)fprintf(out, "  %-*s%s\n", NAME_WIDTH, "version", "print the version");
    (void)fprintf(out, "\n`sluice COMMAND --help` tells more. Try `sluice dev` first.\n");
}

static void print_usage(FILE *out, const struct command *command, const struct command_verb *verb)
{
    (void)fprintf(out, "usage: sluice %s", command->name);
    if (verb->name)
        (void)fprintf(out, " %s", verb->name);
    if (verb->synopsis[0])
        (void)fprintf(out, " %s", verb->synopsis);
    for (size_t i = 0; i < verb->option_count; i++) {
        const struct config_option *option = &verb->options[i];
        (void)fprintf(out, option->value_name ? " [--%s %s]" : " [--%s]", option->name,
                      option->value_name);
    }
    (void)fprintf(out, command->scopes ? " [SETTINGS]\n" : "\n");
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
