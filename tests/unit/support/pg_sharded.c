/*
 * See pg_sharded.h.
 */
#include "support/pg_sharded.h"

#include <stdio.h>
#include <string.h>

#include "shard/placement.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"

/* The lock of a shard's metadata is an advisory lock on the id of the shard. */
#define CATALOGS                                                                                 \
    "set allow_system_table_mods = on; "                                                         \
    "create table pg_catalog.pg_dist_node (groupid int, nodename text, nodeport int, "           \
    "noderole text, isactive boolean); "                                                         \
    "create table pg_catalog.pg_dist_shard (logicalrelid regclass, shardid bigint, "             \
    "shardminvalue text, shardmaxvalue text); "                                                  \
    "create table pg_catalog.pg_dist_placement (shardid bigint, groupid int); "                  \
    "create function pg_catalog.lock_shard_metadata(mode int, shards bigint[]) returns void "    \
    "language plpgsql as 'begin perform pg_advisory_xact_lock_shared(s) from unnest(shards) s; " \
    "end'; "

#define TABLE(name)                                                                           \
    "create table sluice." name " (account_id uuid not null, id bigint not null, body text, " \
    "primary key (account_id, id)); "

#define TABLES                                                                                     \
    "create schema sluice; " TABLE("connection") TABLE("note")                                     \
        TABLE("kind") "do $$ begin for i in 0..3 loop "                                            \
                      "execute format('create table sluice.connection_%s (like sluice.connection " \
                      "including all)', "                                                          \
                      "100 + i); "                                                                 \
                      "execute format('create table sluice.note_%s (like sluice.note including "   \
                      "all)', 200 + i); "                                                          \
                      "insert into pg_dist_shard select t, n + i, (-2147483648 + 1073741824 * "    \
                      "i::bigint)::text, "                                                         \
                      "(-2147483648 + 1073741824 * (i + 1)::bigint - 1)::text "                    \
                      "from (values ('sluice.connection'::regclass, 100), ('sluice.note', 200)) "  \
                      "as x(t, n); "                                                               \
                      "insert into pg_dist_placement values (100 + i, 1 + i % 2), (200 + i, 1 + "  \
                      "i % 2); "                                                                   \
                      "end loop; end $$; "                                                         \
                      "alter table sluice.kind rename to kind_300; "                               \
                      "create view sluice.kind as select * from sluice.kind_300; "                 \
                      "insert into pg_dist_shard values ('sluice.kind', 300, null, null); "        \
                      "insert into pg_dist_placement values (300, 1), (300, 2); "

const char *pg_sharded_database(void)
{
    const char *conninfo = pg_cluster_database(false);
    char nodes[512];
    items_tell(conninfo, CATALOGS);
    items_tell(conninfo, TABLES);
    (void)snprintf(nodes, sizeof(nodes),
                   "insert into pg_dist_node select g, '%s', %u, 'primary', true "
                   "from generate_series(1, 2) g",
                   pg_cluster_socket_dir(), pg_cluster_port());
    items_tell(conninfo, nodes);
    return conninfo;
}

void pg_sharded_move(const char *conninfo, unsigned index, unsigned group)
{
    char sql[256];
    (void)snprintf(sql, sizeof(sql),
                   "begin; select pg_advisory_xact_lock(%u); "
                   "update pg_dist_placement set groupid = %u where shardid in (%u, %u); commit",
                   SHARDED_ANCHOR + index, group, SHARDED_ANCHOR + index, SHARDED_NOTE + index);
    items_tell(conninfo, sql);
}

struct uuid pg_sharded_account(unsigned index, unsigned n)
{
    struct uuid id = {{0}};
    for (uint32_t i = 1;; i++) {
        memcpy(id.bytes, &i, sizeof(i));
        /* The parts are of equal width. */
        uint32_t at = (uint32_t)placement_hash(id) + UINT32_C(0x80000000);
        if (at / (UINT32_MAX / SHARDED_COUNT + 1) == index && n-- == 0)
            return id;
    }
}
