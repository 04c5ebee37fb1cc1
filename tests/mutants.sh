#!/usr/bin/env bash
# Small faults that tests must find: tests/mutants.sh [NAME...]
#
# Each patch of tests/mutants plants one, and its first line names the tests that must fail because
# of it, all of them in `make test`. The patches are applied to a copy of the tree, one after the
# other. If one builds and its tests pass, the tests have a hole. Exits with 1 if one is not found,
# or if no patch has one of NAME.
set -eu
# shellcheck source=lint/files.sh
. "$(dirname "$0")/lint/files.sh"
# shellcheck source=docs/tree.sh
. tests/docs/tree.sh

tree=$root/build/mutants/tree
log=$root/build/mutants/log
number=0
failed=0

result()
{
    number=$((number + 1))
    echo "$1ok $number - $name: $2"
}

# $1: a test. It must fail because of its findings, not because it does not build or was ended.
finds()
{
    ! run_in_tree "$1" >"$log" 2>&1 && grep -Eq '^[0-9]+ passed, [1-9][0-9]* failed' "$log" &&
        ! grep -Eq '\(exit status (124|125|126|137|143)\)' "$log"
}

plant()
{
    local test tests
    apply
    read -ra tests < <(sed -n "1s/^Found by: //p" "$patch")
    for test in "${tests[@]}"; do
        if finds "$test"; then
            result "" "$test finds it"
        else
            sed 's/^/# /' "$log" | tail -n 20
            result "not " "$test finds it"
            failed=1
        fi
    done
    apply -R
}

for name in "$@"; do
    [ -f "tests/mutants/$name.patch" ] || {
        echo "mutants.sh: tests/mutants has no $name.patch" >&2
        exit 1
    }
done
mkdir -p build/mutants
trap 'rm -rf "$root/build/mutants"' EXIT
trap 'exit 130' INT TERM
copy_tree
for patch in tests/mutants/*.patch; do
    name=$(basename "$patch" .patch)
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    plant
done
echo "1..$number"
exit $failed
