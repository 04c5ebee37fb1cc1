/*
 * Files compiled into the binary; the Makefile generates the tables, sorted by name.
 */
#ifndef BASE_EMBED_H
#define BASE_EMBED_H

#include <stddef.h>

struct embed_file {
    const char *name; /* without directory: "0001_base.sql" */
    const unsigned char *data;
    size_t len;
};

extern const struct embed_file embed_sql[];
extern const size_t embed_sql_count;
extern const struct embed_file embed_integrations[];
extern const size_t embed_integrations_count;
extern const struct embed_file embed_parts[]; /* shared by manifests: "google.json" */
extern const size_t embed_parts_count;
/* a single file: the pack of all manifests (catalog/pack.h) */
extern const struct embed_file embed_catalog[];
extern const size_t embed_catalog_count;
extern const struct embed_file embed_templates[];
extern const size_t embed_templates_count;
extern const struct embed_file embed_web[];
extern const size_t embed_web_count;
/* a single file: the compiled pages (web/markup.h) */
extern const struct embed_file embed_markup[];
extern const size_t embed_markup_count;
extern const struct embed_file embed_scenarios[]; /* for sluice-bench */
extern const size_t embed_scenarios_count;
extern const struct embed_file embed_provider[]; /* for sluice-provider */
extern const size_t embed_provider_count;
extern const struct embed_file embed_load[]; /* a single file: the report of sluice-bench */
extern const size_t embed_load_count;
extern const struct embed_file embed_openapi[];
extern const size_t embed_openapi_count;
extern const struct embed_file embed_docs[]; /* a single file: the data of the docs pages
                                              * (web/docs.c) */
extern const size_t embed_docs_count;

#endif
