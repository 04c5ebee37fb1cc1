#!/usr/bin/env bash
# The lists of contrib/CONTRIBUTING.md have their patches: each row of "What to change for" links to
# one in tests/docs, which applies and touches exactly what the row names. `make test-docs` builds
# and tests them. The patches of tests/mutants apply and name tests, as tests/mutants.sh requires.
set -eu
# shellcheck source=files.sh
. "$(dirname "$0")/files.sh"
# shellcheck source=../docs/rows.sh
. tests/docs/rows.sh

check_row()
{
    local patch=$1 files=$2 tests=$3 name migrations=(sql/[0-9]*.sql)
    if [ -z "$patch" ] || [ ! -f "$patch" ]; then
        echo "$page: a row links to no patch of tests/docs: ${patch:-$files}"
        return
    fi
    git apply --check "$patch" 2>&1 | sed "s|^|$patch: |" || true
    differences "$patch" "$files"
    # A migration's number has no gap, so that the patch of one moves on with each that is added.
    name=$(sed -n 's|^+++ b/sql/\([0-9]\{4\}\)_.*|\1|p' "$patch")
    [ -z "$name" ] || [ "$name" = "$(printf '%04d' $((${#migrations[@]} + 1)))" ] ||
        echo "$patch: migration $name is not the next one"
    [ -n "$tests" ] || echo "$page: the row of $patch names no test"
    for name in $tests; do
        [ -f "$name" ] || echo "$page: the row of $patch names $name, which does not exist"
    done
}

check()
{
    local patch files tests linked=
    while IFS='|' read -r patch files tests; do
        check_row "$patch" "$files" "$tests"
        linked="$linked $patch "
    done < <(rows)
    [ -n "$linked" ] || echo "$page: there is no table \"What to change for\""
    for patch in tests/docs/*.patch; do
        [[ $linked == *" $patch "* ]] || echo "$patch: no row of $page links to it"
    done
}

check_mutants()
{
    local patch name names
    for patch in tests/mutants/*.patch; do
        git apply --check "$patch" 2>&1 | sed "s|^|$patch: |" || true
        names=$(sed -n '1s/^Found by: //p' "$patch")
        [ -n "$names" ] || echo "$patch: the first line is not \"Found by: TEST...\""
        for name in $names; do
            [ -f "$name" ] || echo "$patch: it names $name, which does not exist"
        done
    done
}

verdict "the lists of CONTRIBUTING have their patches, and those of mutants apply" "$(check; check_mutants)"
