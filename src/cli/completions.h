/*
 * Completions for shells, made from the tables of commands and settings: commands, their verbs and
 * flags. For everything else the shell completes files.
 */
#ifndef CLI_COMPLETIONS_H
#define CLI_COMPLETIONS_H

#include "cli/command.h"

/* Prints the script. kind: "bash", "zsh" or "fish". Returns false for any other kind. */
bool completions_print(FILE *out, slice kind, const struct command *const *commands, size_t count);

#endif
