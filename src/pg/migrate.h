/*
 * Migrations: the numbered files of sql/, each applied once, in a transaction of its own, under an
 * advisory lock, and recorded with its SHA-256 in sluice.migration. The record must match the files
 * in the binary: an unknown number or another checksum is refused with a sentence.
 */
#ifndef PG_MIGRATE_H
#define PG_MIGRATE_H

#include <stdbool.h>

#include "base/embed.h"
#include "base/err.h"

struct pg_sync;

struct pg_migrate_events {
    /* called before file number `version` is applied; may be NULL */
    void (*on_apply)(void *owner, unsigned version, const char *name);
    void *owner;
};

/* Blocks, so it is called before the loop runs. Applies the missing migrations and also makes
 * today's partitions (a function of the schema does that). files: sorted by name, "NNNN_*.sql" with
 * numbers 1, 2, 3 ...; others (citus.sql) are skipped. *applied (may be NULL) gets the number of
 * migrations applied. Returns ERR_REFUSED if the database has migrations that this binary does not
 * know or its encoding is not UTF8, ERR_INVALID if the list of files is broken, ERR_IO with the
 * database's own message. */
int pg_migrate(const char *conninfo, const struct embed_file *files, size_t file_count,
               const struct pg_migrate_events *events, unsigned *applied,
               struct err *err) MUST_CHECK;

/* The check that `serve` makes before it starts: *version is the highest recorded version (0: no
 * schema). OK if the binary, which knows `known` files, may serve it: N or N+1 (rolling upgrade),
 * and all checksums of 1..N match. ERR_REFUSED with a sentence that names the command to run;
 * ERR_IO. */
int pg_schema_check(const char *conninfo, const struct embed_file *files, size_t file_count,
                    unsigned *version, struct err *err) MUST_CHECK;
/* Makes the same check, and returns the connection that it used; NULL in case of an error. The
 * shared clock (base/clock.h) is set from then on. */
struct pg_sync *pg_schema_open(const char *conninfo, const struct embed_file *files,
                               size_t file_count, struct err *err) MUST_CHECK;
/* The number of migrations in files: the version this binary was built with. */
unsigned pg_schema_known(const struct embed_file *files, size_t file_count);
/* Whether a binary that knows `known` may serve a database at `found`. For /readyz. */
static inline bool pg_schema_is_served(unsigned known, unsigned found)
{
    return found == known || found == known + 1;
}

#endif
