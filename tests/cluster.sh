#!/usr/bin/env bash
# Makes the PostgreSQL data folder that tests copy: tests/cluster.sh FOLDER
#
# It is made with initdb, and has the database sluice, migrated with SLUICE_BIN. Running initdb for
# each test took more processor time than most of these tests. postgres and sluice are superusers,
# so that unit tests and end-to-end tests can share it. No process is left when this ends.
set -eu

folder=${1:?usage: tests/cluster.sh FOLDER}
bin=$(find /usr/lib/postgresql -mindepth 3 -maxdepth 3 -path '*/bin/initdb' -printf '%h\n' | sort -V | tail -n 1)

# PostgreSQL refuses to run as root.
as_its_user()
{
    if [ "$(id -u)" = 0 ]; then (cd / && setpriv --reuid=postgres --regid=postgres --init-groups "$@"); else "$@"; fi
}

psql_do()
{
    "$bin/psql" -h "$folder" -U postgres -d postgres -XAtq -v ON_ERROR_STOP=1 -c "$1"
}

mkdir -m 700 "$folder"
[ "$(id -u)" != 0 ] || chown postgres:postgres "$folder"
as_its_user "$bin/initdb" -D "$folder" -U postgres --auth=trust -E UTF8 --locale=C --no-sync --no-instructions
trap 'as_its_user "$bin/pg_ctl" -D "$folder" -m immediate stop || true' EXIT
as_its_user "$bin/pg_ctl" -D "$folder" -l "$folder/log" -w -o "-F -k '$folder' -c listen_addresses=" start
psql_do 'create role sluice superuser login'
psql_do 'create database sluice owner sluice'
DATABASE_URL="host=$folder user=sluice dbname=sluice" "$SLUICE_BIN" migrate
as_its_user "$bin/pg_ctl" -D "$folder" -m fast -w stop
trap - EXIT
# One segment of the write-ahead log is enough at first, as after initdb.
as_its_user "$bin/pg_resetwal" -D "$folder"
rm "$folder/log"
