/*
 * The commands, each in the file of its name; main.c puts them into one table.
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/command.h"

extern const struct command serve_command, dev_command, migrate_command, accounts_command,
    keys_command, connections_command, webhooks_command, catalog_command, oauth_clients_command,
    flow_command, policy_command, doctor_command, healthcheck_command, top_command;

#endif
