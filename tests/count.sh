#!/usr/bin/env bash
# Prints the code lines (neither blank nor comment) of each room of src, of bench and of sql.
#
#   tests/count.sh [REV]       a commit, instead of the tree as it is
set -eu
# shellcheck source=lint/files.sh
. "$(dirname "$0")/lint/files.sh"

# $1: a commit. Unpacks it and counts there.
count_commit()
{
    local tree
    git rev-parse -q --verify "$1^{commit}" >/dev/null || {
        echo "count: $1 is not a commit of this repository" >&2
        exit 1
    }
    tree=$(mktemp -d)
    # shellcheck disable=SC2064 # expands now
    trap "rm -rf '$tree'" EXIT
    git archive "$1" src bench sql | tar -x -C "$tree"
    # shellcheck disable=SC2046 # our paths contain no spaces
    perl tests/count.pl "$tree" $(git ls-tree -r --name-only "$1" src bench sql)
}

if [ -n "${1:-}" ]; then
    count_commit "$1"
else
    # shellcheck disable=SC2046 # our paths contain no spaces
    perl tests/count.pl . $(all_files | grep -E '^(src|bench|sql)/')
fi
