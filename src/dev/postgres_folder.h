/*
 * Private to dev_postgres*.c: the folders and the user of the private PostgreSQL, and what earlier
 * runs have left in those folders.
 */
#ifndef DEV_POSTGRES_FOLDER_H
#define DEV_POSTGRES_FOLDER_H

#include <sys/stat.h>

#include "dev/postgres.h"

/* Sets uid and gid, home, cluster, sockets, log; makes what folders they need. */
int dev_postgres_choose(struct dev_postgres *pg, const struct dev_folder *folder,
                        struct err *err) MUST_CHECK;
uid_t dev_postgres_owner(const struct dev_postgres *pg);
gid_t dev_postgres_group(const struct dev_postgres *pg);
/* Makes a folder, also in a world-writable one; ERR_REFUSED: the name is taken by a link, a file or
 * another user's folder. */
int dev_postgres_make_folder(const char *path, mode_t mode, uid_t owner, gid_t group,
                             struct err *err) MUST_CHECK;
/* The postmaster of a cluster, 0 when there is none. Its working directory is the cluster, so that
 * a recycled pid is not mistaken for it. */
pid_t dev_postgres_find_postmaster(const char *cluster);
void dev_postgres_remove_tree(const char *path);
/* out is DEV_PATH_MAX bytes. ERR_LIMIT. */
int dev_path_join(char *out, const char *dir, const char *name, struct err *err) MUST_CHECK;

#endif
