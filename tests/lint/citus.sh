#!/usr/bin/env bash
# tests/citus/e2e.list has a line for each end-to-end file: "run NAME", or "not NAME: why".
set -eu
# shellcheck source=files.sh
. "$(dirname "$0")/files.sh"

list=tests/citus/e2e.list

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

verdict "every end-to-end file runs on a cluster, or is named with a reason" "$(check)"
