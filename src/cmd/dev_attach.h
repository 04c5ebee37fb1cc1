/*
 * How the operator's commands reach the database of a `sluice dev` that runs: it leaves its
 * settings in its data folder (dev_folder.h), and --data DIR takes them from there.
 */
#ifndef CMD_DEV_ATTACH_H
#define CMD_DEV_ATTACH_H

#include "cmd/config.h"
#include "cmd/dev_folder.h"

/* For dev, once all of them are set: database, master key, trust roots, where calls go. */
int dev_attach_offer(const struct dev_folder *folder, const struct config *config,
                     struct err *err) MUST_CHECK;
/* For a command: config->data_dir's settings, over its own. ERR_NOTFOUND: no data of dev lies
 * there; ERR_CLOSED: no dev runs on it, or it has only begun. */
int dev_attach(struct config *config, struct err *err) MUST_CHECK;

#endif
