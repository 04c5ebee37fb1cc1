#!/usr/bin/env bash
# tests/citus/e2e.list has a line for each end-to-end file: "run NAME", or "not NAME: why". And
# migrations can be applied to a distributed database, whose functions and statements Citus accepts
# (citus.pl).
set -eu
# shellcheck source=files.sh
. "$(dirname "$0")/files.sh"

list=tests/citus/e2e.list
# Tables can be distributed since this migration.
distributed_since=16

check()
{
    local file
    grep -nvE '^(#.*|run [a-z0-9_]+|not [a-z0-9_]+: .+|)$' "$list" |
        sed "s|^|$list:|; s|\$|: neither \"run NAME\" nor \"not NAME: why\"|"
    sed -nE 's/^(run|not) ([a-z0-9_]+).*/\2/p' "$list" | sort | uniq -d |
        sed "s|.*|$list: two lines for &|"
    for file in tests/e2e/*.test.mjs; do
        file=$(basename "$file" .test.mjs)
        grep -qE "^(run|not) $file(:|\$)" "$list" ||
            echo "$list: no line for $file: does it run on a cluster, or why not?"
    done
    sed -nE 's/^(run|not) ([a-z0-9_]+).*/\2/p' "$list" | while read -r file; do
        [ -f "tests/e2e/$file.test.mjs" ] || echo "$list: there is no tests/e2e/$file.test.mjs"
    done
}

# In a distributed table, Citus requires a name for each constraint, and does not accept a
# constraint in the command that adds a column.
check_migrations()
{
    local file number
    for file in sql/[0-9][0-9][0-9][0-9]_*.sql; do
        number=$(basename "$file" | cut -c 1-4)
        [ "$((10#$number))" -gt "$distributed_since" ] || continue
        sed 's/--.*//' "$file" | tr '\n' ' ' |
            grep -oiE 'add column [^,;]* (check|unique|primary key|references)\b' |
            sed "s|.*|$file: \"&\": add the column, then \"alter table .. add constraint NAME ..\"|"
    done
}

verdict "end-to-end files run on a cluster or say why not; migrations can be applied to one" \
    "$(check; check_migrations; perl tests/lint/citus.pl)"
