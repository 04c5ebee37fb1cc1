/*
 * The private PostgreSQL of `sluice dev`: a cluster under the data folder, reached through a Unix
 * socket that only its owner can open, never through a port. For root it runs as an unprivileged
 * user, with its files in a folder that this user can reach.
 */
#ifndef DEV_POSTGRES_H
#define DEV_POSTGRES_H

#include "base/err.h"
#include "dev/child.h"
#include "dev/folder.h"
#include "dev/stage.h"

struct dev_postgres {
    struct child child;
    char bin[DEV_PATH_MAX];     /* folder of initdb and postgres */
    char home[DEV_PATH_MAX];    /* the folder that contains the cluster */
    char cluster[DEV_PATH_MAX]; /* the data directory */
    char sockets[DEV_PATH_MAX]; /* folder of the socket */
    char log[DEV_PATH_MAX];     /* the server's log file */
    char url[3 * DEV_PATH_MAX]; /* for libpq; names the database sluice */
    uid_t uid;                  /* 0: this process's user */
    gid_t gid;
    bool is_new; /* made by this start */
};

/* Finds the programs, makes the cluster if there is none, stops a postmaster that an earlier run
 * left running, and starts a new one. folder is open; stages may be NULL. Errors say what to
 * install or repair. */
int dev_postgres_start(struct dev_postgres *pg, const struct dev_folder *folder,
                       struct dev_stages *stages, struct err *err) MUST_CHECK;
/* Waits until PostgreSQL answers, and creates the database if there is none. On failure
 * PostgreSQL is stopped. */
int dev_postgres_wait(struct dev_postgres *pg, struct err *err) MUST_CHECK;
void dev_postgres_stop(struct dev_postgres *pg);
/* Returns the pid of a cluster's postmaster, or 0 if there is none. Its working directory is the
 * cluster, so that a recycled pid is not mistaken for it. */
pid_t dev_postgres_find_postmaster(const char *cluster);

#endif
