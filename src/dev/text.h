/*
 * What `sluice dev` prints once it runs: examples for a person on stdout, facts for programs in the
 * ready file.
 */
#ifndef DEV_TEXT_H
#define DEV_TEXT_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/id.h"
#include "json/json.h"

struct dev_facts {
    uint16_t port;
    struct uuid account_id;
    const char *api_key;
    slice provider_url, provider_ca_file;
    const char *database_url, *data_dir;
    const struct json *task_parent; /* {"page_id"} */
};

/* Prints the address, and commands to paste into a shell. */
void dev_text_print(FILE *out, const struct dev_facts *facts);
/* Writes {"base_url","api_key","provider_url","provider_ca_file","database_url","pid","account_id",
 * "demo":{"task_parent":{...}}}, written as a whole, by rename. */
int dev_text_ready_write(const char *path, const struct dev_facts *facts,
                         struct err *err) MUST_CHECK;

#endif
