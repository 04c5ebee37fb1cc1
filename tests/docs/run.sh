#!/usr/bin/env bash
# Tests one row of the table "What to change for" of contrib/CONTRIBUTING.md in a copy of the tree:
# tests/docs/run.sh PATCH
#
# The row's patch touches exactly what the row names. With it, the tree builds and the tests of the
# row pass. If the part for any one file is left out, the build or one of these tests fails. The
# copy, build/docs/NAME, starts from the present build and is removed at the end. With KEEP=1 it
# stays, with the whole patch applied. Exits with 1 if something is not as it should be.
set -eu

patch=${1:?usage: tests/docs/run.sh PATCH}
# shellcheck source=../lint/files.sh
. "$(dirname "$0")/../lint/files.sh"
# shellcheck source=rows.sh
. tests/docs/rows.sh
# shellcheck source=tree.sh
. tests/docs/tree.sh

name=$(basename "$patch" .patch)
tree=$root/build/docs/$name
log=$root/build/docs/$name.log
count=0
failed=0

# $1: the statement, $2: 0 if it is true.
result()
{
    count=$((count + 1))
    if [ "$2" -ne 0 ]; then
        failed=1
        printf 'not '
    fi
    printf 'ok %d - %s\n' "$count" "$1"
}

# The tests of an app run for that app alone.
app=$(files_of "$patch" | sed -n 's|^contrib/integrations/\([a-z_]*\)\.json$|\1|p')

# Builds, and runs the tests $1 one after the other until one fails. The output is in the log.
build_and_test()
{
    local test
    echo "building" >"$log"
    in_tree all asan >>"$log" 2>&1 || return 1
    for test in $1; do
        echo "$test" >>"$log"
        run_in_tree "$test" >>"$log" 2>&1 || return 1
        # A run of skipped tests proves nothing.
        tail -n 1 "$log" | grep -Eq '^[1-9][0-9]* passed, 0 failed' || return 1
    done
}

# The line of the log that says what failed, and in which step.
reason()
{
    awk '
        /^(building|tests\/[^ ]*)$/ { step = $0 }
        found == "" && /error:|undefined reference|^ *error: |^[a-z].*: .*(is used|touches)/ {
            found = $0
        }
        found == "" && /^ *not ok/ { found = $0 }
        END { print "# " step ": " (found == "" ? "failed" : found) }' "$log" | cut -c 1-300
}

check_row()
{
    local files=$1 tests=$2 found file status
    found=$(differences "$patch" "$files")
    [ -z "$found" ] || printf '%s\n' "$found"
    result "$name: the patch touches what its row names" "${#found}"
    copy_tree
    status=0
    apply || status=$?
    [ "$status" -ne 0 ] || build_and_test "$tests" || status=$?
    result "$name: it builds, and $tests pass" "$status"
    if [ "$status" -ne 0 ]; then
        sed 's/^/# /' "$log" # its "ok" lines are not this program's
        return
    fi
    apply -R
    for file in $(files_of "$patch"); do
        apply "--exclude=$file"
        status=0
        ! build_and_test "$tests" || status=1
        [ "$status" -ne 0 ] || reason
        result "$name: it fails without $file" "$status"
        apply -R "--exclude=$file"
    done
    [ -z "${KEEP:-}" ] || apply
}

main()
{
    local linked files tests is_there=
    mkdir -p build/docs
    [ -n "${KEEP:-}" ] || trap 'rm -rf "$tree" "$log"' EXIT
    trap 'exit 130' INT TERM
    while IFS='|' read -r linked files tests; do
        [ "$linked" = "$patch" ] || continue
        is_there=1
        check_row "$files" "$tests"
    done < <(rows)
    [ -n "$is_there" ] || result "$patch: a row of $page links to it" 1
    echo "1..$count"
}

main
exit $failed
