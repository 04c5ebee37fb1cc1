/*
 * The emulated provider of `sluice dev`: the program sluice-provider from this program's
 * folder, as a child that ends with its parent. It answers for the demo apps
 * (bench/provider/README.md).
 */
#ifndef DEV_PROVIDER_H
#define DEV_PROVIDER_H

#include "dev/child.h"
#include "dev/folder.h"
#include "json/json.h"

struct dev_provider {
    struct child child;
    char log[DEV_PATH_MAX];
    char ready[DEV_PATH_MAX]; /* its ready file; removed when it stops */
    struct arena arena;       /* owns the members below, which dev_provider_wait sets */
    slice url, ca_file;
    const struct json *tokens;      /* object: integration id -> access token */
    const struct json *task_parent; /* {"page_id"} */
};

/* Starts the provider and returns without waiting. */
int dev_provider_start(struct dev_provider *provider, const struct dev_folder *folder,
                       struct err *err) MUST_CHECK;
/* Waits until the provider answers. On failure the provider is stopped. */
int dev_provider_wait(struct dev_provider *provider, struct err *err) MUST_CHECK;
/* Harmless if the provider was never started. */
void dev_provider_stop(struct dev_provider *provider);

#endif
