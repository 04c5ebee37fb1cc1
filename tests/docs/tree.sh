# shellcheck shell=bash disable=SC2154 # $tree and $patch are the sourcing script's
#
# A copy of the tree that patches are applied to; sourced, from the root. $tree names its folder and
# $patch a patch. It starts from the present build, so that little is compiled.

root=$PWD

# The outer make's settings do not apply to the copy. $app: tests of apps run for that one alone.
in_tree()
{
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u VARIANT -u ROOM -u T -u TEST_TIMEOUT_S \
        ${app:+"APP=$app"} make -C "$tree" --no-print-directory "$@"
}

# Like `git apply`, in the copy, which is a repository of its own.
apply()
{
    git -C "$tree" apply "$@" "$root/$patch"
}

copy_tree()
{
    rm -rf "$tree"
    mkdir -p "$tree/build"
    all_files | tr '\n' '\0' | xargs -0 cp -a --parents -t "$tree"
    # Times are kept, so that nothing is built a second time.
    cp -a build/asan build/release build/gen build/list build/stamp build/sluice build/sluice-* \
        "$tree/build"
    ln -s "$root/build/deps" "$tree/build/deps"
    ln -s "$root/tests/e2e/node_modules" "$tree/tests/e2e/node_modules"
    git -C "$tree" init -q
    git -C "$tree" add -A
}

# $1: a file of tests. Its last line of output has the counts.
run_in_tree()
{
    local room=${1#tests/unit/}
    case $1 in
    tests/e2e/*) in_tree test-e2e "T=$(basename "$1")" ;;
    tests/unit/*) in_tree test-unit "ROOM=${room%%/*}" "T=$(basename "$1")" ;;
    *) (cd "$tree" && "$1" && echo "1 passed, 0 failed") ;;
    esac
}
