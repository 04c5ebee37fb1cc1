/*
 * Completions for shells, made of the tables of commands and settings: commands, their verbs and
 * flags; the shell's own files for all else.
 */
#ifndef CLI_COMPLETIONS_H
#define CLI_COMPLETIONS_H

#include "cli/command.h"

/* kind: "bash", "zsh" or "fish". false: none of these. */
bool completions_print(FILE *out, slice kind, const struct command *const *commands, size_t count);

#endif
