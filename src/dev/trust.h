/*
 * The trust roots of `sluice dev`: those of the system (or of --ca-file) and the emulated
 * provider's CA, in one file, so that real apps can be called as well as the demo apps.
 */
#ifndef DEV_TRUST_H
#define DEV_TRUST_H

#include "base/slice.h"
#include "dev/folder.h"

/* Writes the bundle DIR/ca-bundle.pem. own_file: --ca-file, "" for the system's roots (which may
 * be missing). */
int dev_trust_write(const struct dev_folder *folder, const char *own_file, const char *ca_file,
                    char out[DEV_PATH_MAX], struct err *err) MUST_CHECK;

#endif
