/*
 * sluice catalog import: makes a manifest from a vendor's own API description.
 */
#ifndef CLI_CATALOG_IMPORT_H
#define CLI_CATALOG_IMPORT_H

#include "cli/session.h"

enum { CATALOG_IMPORT_OPTIONS = 3 };
extern const struct config_option catalog_import_options[CATALOG_IMPORT_OPTIONS];

/* argv: the kind of description (openapi) and its file. The manifest goes to --output or stdout,
 * the report to stderr. */
int catalog_import(struct session *session, struct command_call *call);

#endif
