/*
 * Man pages in man(7); see manual.h.
 */
#include "cli/manual.h"

#include "cli/completions.h"

/* Writes text. A backslash would begin an escape, a hyphen is not a minus, and a line that
 * begins with a dot or an apostrophe is a request. */
static void put_roff(FILE *out, const char *text)
{
    bool is_line_begin = true;
    for (; *text; text++) {
        if (is_line_begin && (*text == '.' || *text == '\''))
            (void)fputs("\\&", out);
        is_line_begin = *text == '\n';
        if (*text == '\\')
            (void)fputs("\\e", out);
        else if (*text == '-')
            (void)fputs("\\-", out);
        else
            (void)fputc(*text, out);
    }
}

static void put_line(FILE *out, const char *request, const char *const *texts)
{
    (void)fputs(request, out);
    for (; *texts; texts++)
        put_roff(out, *texts);
    (void)fputc('\n', out);
}

/* Writes a line from a request and texts, each written as by put_roff; NULL ends the list. */
#define PUT_LINE(out, request, ...) put_line(out, request, (const char *const[]){__VA_ARGS__})

/* Writes an option. name: a setting's name, or a flag with its dashes; value may be NULL. */
static void put_option(FILE *out, const char *name, const char *value, const char *help)
{
    (void)fputs(".TP\n.B ", out);
    put_roff(out, name);
    if (value) {
        (void)fputs(" \\fI", out);
        put_roff(out, value);
        (void)fputs("\\fR", out);
    }
    (void)fputc('\n', out);
    PUT_LINE(out, "", help, NULL);
}

static void put_flag(FILE *out, const struct config_option *option)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "--%s", option->name);
    put_option(out, name, option->value_name, option->help);
}

static void put_verb(FILE *out, const struct command *command, const struct command_verb *verb)
{
    PUT_LINE(out, ".PP\n\\fBsluice ", command->name, verb->name ? " " : "",
             verb->name ? verb->name : "", NULL);
    if (verb->synopsis[0])
        PUT_LINE(out, "\\fI", verb->synopsis, NULL);
    PUT_LINE(out, "\\fR\n.br\n", verb->summary, NULL);
    for (size_t i = 0; i < verb->option_count; i++)
        put_flag(out, &verb->options[i]);
}

/* Writes sluice.1: each command with its verbs and flags, as in --help. */
static void put_page(FILE *out, const struct command *const *commands, size_t count)
{
    PUT_LINE(out, ".TH SLUICE 1 \"\" sluice\\ ", command_version, NULL);
    PUT_LINE(out, ".SH NAME\nsluice \\- ", "runs actions on third-party apps for agents", NULL);
    PUT_LINE(out, ".SH SYNOPSIS\n.B sluice\n.I COMMAND\n.RI [ ARGUMENT ]...\n.SH COMMANDS", NULL);
    for (size_t i = 0; i < count; i++) {
        PUT_LINE(out, ".SS ", commands[i]->name, NULL);
        for (size_t v = 0; v < commands[i]->verb_count; v++)
            put_verb(out, commands[i], &commands[i]->verbs[v]);
        if (commands[i]->help)
            PUT_LINE(out, ".PP\n", commands[i]->help, NULL);
    }
    PUT_LINE(out,
             ".SH SETTINGS\nEvery setting of\n.BR sluice.conf (5)\nthat a command reads is also "
             "available as a flag.\n.SH EXIT STATUS\n",
             "0: success. 1: failure; a message on stderr gives the reason. 2: usage error.", NULL);
    PUT_LINE(out, ".SH SEE ALSO\n.BR sluice.conf (5)", NULL);
}

/* Writes sluice.conf.5: the table of settings. */
static void put_settings(FILE *out)
{
    PUT_LINE(out, ".TH SLUICE.CONF 5 \"\" sluice\\ ", command_version, NULL);
    PUT_LINE(out, ".SH NAME\nsluice.conf \\- ", "settings of sluice", NULL);
    PUT_LINE(out, ".SH DESCRIPTION\n",
             "Lines `name = value`; a line that begins with # is a comment. The file is named by "
             "--config or SLUICE_CONFIG. Each setting is also an environment variable "
             "(database-url: SLUICE_DATABASE_URL) and a flag (--database-url). A flag overrides "
             "the environment, which overrides the file. A file with database-url or master-key "
             "must not be readable by others.",
             NULL);
    PUT_LINE(out, "TIME is 500ms, 30s, 5m, 24h or 30d; BYTES is a number with k, m or g.", NULL);
    PUT_LINE(out, ".SH SETTINGS", NULL);
    for (size_t i = 0; i < config_item_count; i++) {
        const struct config_item *item = &config_items[i];
        put_option(out, item->name, item->value_name, item->help);
        if (item->default_text[0])
            PUT_LINE(out, ".br\nDefault: ", item->default_text, NULL);
    }
    PUT_LINE(out, ".SH SEE ALSO\n.BR sluice (1)", NULL);
}

bool manual_print(FILE *out, slice kind, const struct command *const *commands, size_t count)
{
    if (slice_eq_cstr(kind, "man"))
        put_page(out, commands, count);
    else if (slice_eq_cstr(kind, "man-conf"))
        put_settings(out);
    else
        return completions_print(out, kind, commands, count);
    return true;
}
