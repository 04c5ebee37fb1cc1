/*
 * The trust roots of `sluice dev`: the system's (or --ca-file's) and the emulated provider's CA, in
 * one file, so that real apps can be called as well as the demo apps.
 */
#ifndef DEV_TRUST_H
#define DEV_TRUST_H

#include "base/slice.h"
#include "dev/folder.h"

/* Writes the bundle DIR/ca-bundle.pem. own_file: --ca-file, "" for the system's roots (none
 * installed is fine). */
int dev_trust_write(const struct dev_folder *folder, const char *own_file, const char *ca_file,
                    char out[DEV_PATH_MAX], struct err *err) MUST_CHECK;

#endif
