#!/usr/bin/env bash
# Prints the folder of programs of a PostgreSQL that supports `create extension citus`:
# SLUICE_CITUS_BIN or, if that is not set, the newest that is installed. Without one, it says what
# to install, and exits with 1.
set -eu

# $1: folder of programs. The extension's files are in a sibling folder, or in Debian's.
has_citus()
{
    local program share
    for program in initdb postgres psql; do
        [ -x "$1/$program" ] || return 1
    done
    for share in "$1/../share" "$1/../share/postgresql" "/usr/share/postgresql/$(basename "$(dirname "$1")")"; do
        [ ! -e "$share/extension/citus.control" ] || return 0
    done
    return 1
}

folders=${SLUICE_CITUS_BIN:-$(printf '%s\n' /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin | sort -rV)}
for folder in $folders; do
    if has_citus "$folder"; then
        realpath "$folder"
        exit
    fi
done
echo "no PostgreSQL${SLUICE_CITUS_BIN:+ in $SLUICE_CITUS_BIN} has Citus: install the extension (package" \
    "postgresql-15-citus-13.2 of Citus Data), or name another folder of programs by SLUICE_CITUS_BIN" >&2
exit 1
