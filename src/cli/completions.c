/*
 * Completions for shells; see completions.h. zsh and fish describe each word; bash cannot.
 */
#include "cli/completions.h"

/* ---- bash ---- */

static void put_flags(FILE *out, const struct command *command, const struct command_verb *verb)
{
    (void)fprintf(out, "    \"%s%s%s\") flags=\"--help", command->name, verb->name ? " " : "",
                  verb->name ? verb->name : "");
    for (size_t i = 0; i < verb->option_count; i++)
        (void)fprintf(out, " --%s", verb->options[i].name);
    for (size_t i = 0; i < config_item_count; i++)
        if (config_items[i].scopes & command->scopes)
            (void)fprintf(out, " --%s", config_items[i].name);
    (void)fprintf(out, "%s\" ;;\n", command->scopes ? " --config" : "");
}

/* Completes flags if the word begins with a dash; otherwise commands, their verbs, then files. */
static void put_bash(FILE *out, const struct command *const *commands, size_t count)
{
    (void)fprintf(
        out, "# Completions of sluice for bash, by `sluice help --bash`.\n_sluice()\n{\n"
             "    local word=${COMP_WORDS[COMP_CWORD]} verbs='' flags='' line=${COMP_WORDS[1]}\n"
             "    case $line in\n");
    for (size_t i = 0; i < count; i++) {
        if (!commands[i]->verbs[0].name)
            continue;
        (void)fprintf(out, "    %s) verbs=\"", commands[i]->name);
        for (size_t v = 0; v < commands[i]->verb_count; v++)
            (void)fprintf(out, "%s%s", v ? " " : "", commands[i]->verbs[v].name);
        (void)fprintf(out, "\"; line+=\" ${COMP_WORDS[2]}\" ;;\n");
    }
    (void)fprintf(out, "    esac\n    case $line in\n");
    for (size_t i = 0; i < count; i++)
        for (size_t v = 0; v < commands[i]->verb_count; v++)
            put_flags(out, commands[i], &commands[i]->verbs[v]);
    (void)fprintf(out, "    esac\n    COMPREPLY=()\n    if [ \"$COMP_CWORD\" = 1 ]; then\n"
                       "        flags=\"--help --version\" verbs=\"help version");
    for (size_t i = 0; i < count; i++)
        (void)fprintf(out, " %s", commands[i]->name);
    (void)fprintf(out, "\"\n    elif [ \"$COMP_CWORD\" != 2 ]; then\n        verbs=''\n    fi\n"
                       "    case $word in\n    -*) verbs=$flags ;;\n    esac\n"
                       "    mapfile -t COMPREPLY < <(compgen -W \"$verbs\" -- \"$word\")\n}\n"
                       "complete -o default -F _sluice sluice\n");
}

/* ---- zsh and fish ---- */

/* Writes text between single quotes. zsh has no escape inside them, fish has a backslash. */
static void put_quoted(FILE *out, const char *text, bool is_fish)
{
    for (; *text; text++)
        if (*text == '\'')
            (void)fputs(is_fish ? "\\'" : "'\\''", out);
        else if (*text == '\\' && is_fish)
            (void)fputs("\\\\", out);
        else
            (void)fputc(*text, out);
}

/* In the scripts of bash and zsh, `line` is the command and its verb (if it has verbs) of the
 * current command line. Flags are looked up by it. */

/* Writes an item of an array for zsh's _describe: 'word:description'. */
static void put_item(FILE *out, const char *dashes, const char *word, const char *help)
{
    (void)fprintf(out, " '%s%s:", dashes, word);
    put_quoted(out, help, false);
    (void)fputc('\'', out);
}

static void put_zsh_flags(FILE *out, const struct command *command, const struct command_verb *verb)
{
    (void)fprintf(out, "    '%s%s%s') flags=('--help:what it does'", command->name,
                  verb->name ? " " : "", verb->name ? verb->name : "");
    for (size_t i = 0; i < verb->option_count; i++)
        put_item(out, "--", verb->options[i].name, verb->options[i].help);
    for (size_t i = 0; i < config_item_count; i++)
        if (config_items[i].scopes & command->scopes)
            put_item(out, "--", config_items[i].name, config_items[i].help);
    if (command->scopes)
        put_item(out, "--", "config", "a file of settings");
    (void)fprintf(out, ") ;;\n");
}

/* Writes a file that zsh autoloads as the function _sluice. Its first line binds it to the command,
 * its last line runs the function. */
static void put_zsh(FILE *out, const struct command *const *commands, size_t count)
{
    (void)fprintf(out, "#compdef sluice\n# Completions of sluice for zsh, by `sluice help --zsh`.\n"
                       "_sluice()\n{\n    local line=$words[2]\n    local -a words_of flags\n"
                       "    case $line in\n");
    for (size_t i = 0; i < count; i++) {
        if (!commands[i]->verbs[0].name)
            continue;
        (void)fprintf(out, "    %s) words_of=(", commands[i]->name);
        for (size_t v = 0; v < commands[i]->verb_count; v++)
            put_item(out, "", commands[i]->verbs[v].name, commands[i]->verbs[v].summary);
        (void)fprintf(out, "); line+=\" $words[3]\" ;;\n");
    }
    (void)fprintf(out, "    esac\n    case $line in\n");
    for (size_t i = 0; i < count; i++)
        for (size_t v = 0; v < commands[i]->verb_count; v++)
            put_zsh_flags(out, commands[i], &commands[i]->verbs[v]);
    (void)fprintf(out, "    esac\n    if (( CURRENT == 2 )); then\n        words_of=(");
    for (size_t i = 0; i < count; i++)
        put_item(out, "", commands[i]->name, commands[i]->summary);
    (void)fprintf(out, ")\n    elif (( CURRENT != 3 )); then\n        words_of=()\n    fi\n"
                       "    if [[ $words[CURRENT] == -* ]]; then\n        _describe flag flags\n"
                       "    elif (( $#words_of )); then\n        _describe command words_of\n"
                       "    else\n        _files\n    fi\n}\n_sluice \"$@\"\n");
}

/* Writes one line: the condition, the word, and its help. */
static void put_fish_line(FILE *out, const char *condition, const char *what, const char *name,
                          const char *help)
{
    (void)fprintf(out, "complete -c sluice -n '%s' %s %s -d '", condition, what, name);
    put_quoted(out, help, true);
    (void)fputs("'\n", out);
}

/* fish evaluates each line's condition. A verb is offered until the line has one, without file
 * names (-f); a flag with a value takes the next word, which may be a file (-r). */
static void put_fish_command(FILE *out, const struct command *command)
{
    char here[128], verb_here[256], no_verb[1024];
    (void)snprintf(here, sizeof(here), "__fish_seen_subcommand_from %s", command->name);
    int len = snprintf(no_verb, sizeof(no_verb), "%s; and not __fish_seen_subcommand_from", here);
    for (size_t v = 0; command->verbs[0].name && v < command->verb_count; v++)
        len +=
            snprintf(no_verb + len, sizeof(no_verb) - (size_t)len, " %s", command->verbs[v].name);
    ASSERT((size_t)len < sizeof(no_verb));
    for (size_t v = 0; v < command->verb_count; v++) {
        const struct command_verb *verb = &command->verbs[v];
        (void)snprintf(verb_here, sizeof(verb_here), "%s%s%s", here,
                       verb->name ? "; and __fish_seen_subcommand_from " : "",
                       verb->name ? verb->name : "");
        if (verb->name)
            put_fish_line(out, no_verb, "-f -a", verb->name, verb->summary);
        for (size_t i = 0; i < verb->option_count; i++)
            put_fish_line(out, verb_here, verb->options[i].value_name ? "-r -l" : "-l",
                          verb->options[i].name, verb->options[i].help);
    }
    for (size_t i = 0; i < config_item_count; i++)
        if (config_items[i].scopes & command->scopes)
            put_fish_line(out, here, "-r -l", config_items[i].name, config_items[i].help);
    if (command->scopes)
        put_fish_line(out, here, "-r -l", "config", "a file of settings");
}

static void put_fish(FILE *out, const struct command *const *commands, size_t count)
{
    (void)fprintf(out, "# Completions of sluice for fish, by `sluice help --fish`.\n"
                       "complete -c sluice -l help -d 'what it does'\n");
    for (size_t i = 0; i < count; i++)
        put_fish_line(out, "__fish_use_subcommand", "-f -a", commands[i]->name,
                      commands[i]->summary);
    for (size_t i = 0; i < count; i++)
        put_fish_command(out, commands[i]);
}

bool completions_print(FILE *out, slice kind, const struct command *const *commands, size_t count)
{
    if (slice_eq_cstr(kind, "bash"))
        put_bash(out, commands, count);
    else if (slice_eq_cstr(kind, "zsh"))
        put_zsh(out, commands, count);
    else if (slice_eq_cstr(kind, "fish"))
        put_fish(out, commands, count);
    else
        return false;
    return true;
}
