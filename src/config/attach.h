/*
 * How operator commands reach the database of a running `sluice dev`: dev writes its settings into
 * its data folder (dev/folder.h), and --data DIR reads them from there.
 */
#ifndef CONFIG_ATTACH_H
#define CONFIG_ATTACH_H

#include "base/buf.h"
#include "config/config.h"

/* Names of files in the folder: the file of these settings, and the file that dev keeps locked. */
extern const char config_attach_name[], config_attach_lock_name[];

/* Writes the text of that file to out, for dev, once its config has the database, the master key,
 * the trust roots and the origin overrides. The caller checks whether out has reached its limit. */
void config_attach_put(const struct config *config, struct buf *out);
/* For a command: reads the settings of config->data_dir over its own. Returns ERR_NOTFOUND if the
 * folder has no data of `sluice dev`, and ERR_CLOSED if no `sluice dev` runs on it or it is still
 * starting. */
int config_attach(struct config *config, struct err *err) MUST_CHECK;

#endif
