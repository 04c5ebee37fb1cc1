/*
 * How operator commands reach the database of a running `sluice dev`: dev writes its settings into
 * its data folder (dev_folder.h), and --data DIR reads them from there.
 */
#ifndef CMD_DEV_ATTACH_H
#define CMD_DEV_ATTACH_H

#include "cmd/config.h"
#include "cmd/dev_folder.h"

/* For dev, once its config has the database, the master key, the trust roots and the origin
 * overrides: writes these settings into the folder. */
int dev_attach_offer(const struct dev_folder *folder, const struct config *config,
                     struct err *err) MUST_CHECK;
/* For a command: the settings of config->data_dir, over its own. ERR_NOTFOUND: the folder has no
 * data of dev; ERR_CLOSED: no dev runs on it, or it is still starting. */
int dev_attach(struct config *config, struct err *err) MUST_CHECK;

#endif
