#!/usr/bin/env bash
# Builds the previous version of `sluice`, and prints its path. It prints nothing if there is none
# to build: without git, or in a clone that does not go back far enough. The previous version is the
# last tag before this commit or, without a tag, the last commit whose migrations are today's
# without the newest, since a program serves the schema that it knows and the next one.
set -eu
cd "$(dirname "$0")/../../.."

# Names and hashes of all of today's migrations except the newest.
wanted=$(for file in sql/[0-9]*.sql; do echo "$(git hash-object "$file") $file"; done | sed '$d')

has_all_but_the_newest()
{
    [ "$(git ls-tree "$1" sql/ | awk '$4 ~ /\/[0-9]/ { print $3, $4 }')" = "$wanted" ]
}

last_of_the_schema_before()
{
    local commit
    for commit in HEAD $(git log -n 100 --format=%P -- sql); do
        if has_all_but_the_newest "$commit" 2>/dev/null; then
            echo "$commit"
            return
        fi
    done
}

commit=$(git describe --tags --abbrev=0 --match 'v*' HEAD^ 2>/dev/null) || commit=$(last_of_the_schema_before 2>/dev/null)
[ -n "$commit" ] || exit 0
commit=$(git rev-parse "$commit^{commit}")

tree=$PWD/build/before/$commit
# Of tests that run side by side, the first builds it.
mkdir -p "${tree%/*}"
exec 9>"$tree.lock"
flock 9
if [ ! -x "$tree/build/sluice" ]; then
    rm -rf "$tree"
    mkdir -p "$tree"
    git archive "$commit" | tar -x -C "$tree"
    # If its libraries are built like today's, they are the same.
    if git diff --quiet "$commit" HEAD -- deps/recipes.sh deps/mbedtls_config.h; then
        mkdir -p "$tree/build/deps"
        tar -c -C "${DEPS_CACHE:-build/deps}" --exclude=./arm64 . | tar -x -m -C "$tree/build/deps"
    fi
    # Make passes its own settings on in the environment. They are for today's sources.
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u DEPS_CACHE SYSTEM_DEPS=skip \
        make -C "$tree" -j "$(nproc)" build/sluice >"$tree/build.log" 2>&1 9>&- || {
        tail -n 50 "$tree/build.log" >&2
        exit 1
    }
fi
echo "$tree/build/sluice"
