/*
 * Prints the files that a package installs in addition to the program: man pages and completions,
 * made from the tables of commands and settings, so that they are always complete.
 */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include "cli/command.h"

/* kind: "man" (sluice.1), "man-conf" (sluice.conf.5) or a shell (completions.h). Returns false
 * for any other kind. */
bool manual_print(FILE *out, slice kind, const struct command *const *commands, size_t count);

#endif
