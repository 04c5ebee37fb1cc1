/*
 * Splits a script of SQL into statements: Citus sends a statement's text to other nodes, which
 * refuse a text of several statements.
 */
#ifndef PG_SCRIPT_H
#define PG_SCRIPT_H

#include "base/slice.h"

/* Removes the next statement, without its semicolon, from the front of *script. Returns false if
 * the script has ended; *script is empty then. Semicolons in strings, quoted names, dollar quotes
 * and comments do not end a statement. Not supported: backslashes in E'' strings, SQL bodies of
 * functions (begin atomic). An unclosed quote extends to the end, and the database reports it. */
bool pg_script_next(slice *script, slice *statement);

#endif
