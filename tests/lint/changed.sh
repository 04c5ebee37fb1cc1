#!/usr/bin/env bash
# Prints the files that differ from where this branch left origin/main (or from HEAD if there is no
# such branch), including uncommitted ones, and the source files of changed headers.
set -eu
# shellcheck source=files.sh
. "$(dirname "$0")/files.sh"

git rev-parse --git-dir >/dev/null 2>&1 || {
    all_files
    exit 0
}
base=$(git merge-base HEAD origin/main 2>/dev/null || echo HEAD)
{
    git diff --name-only "$base"
    git ls-files --others --exclude-standard
} | sed 'p; s/\.h$/.c/' | sort -u | while read -r file; do
    [ ! -f "$file" ] || echo "$file"
done
