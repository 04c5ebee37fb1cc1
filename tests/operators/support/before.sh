#!/usr/bin/env bash
# Builds `sluice` of the version before this one, and prints where it is; prints nothing where there is none to
# build: no git here, or a clone that does not go back so far. That is the last tag before this commit or, where
# there is none, the commit that gave src/base/version.h its present version.
set -eu
cd "$(dirname "$0")/../../.."

commit=$(git describe --tags --abbrev=0 --match 'v*' HEAD^ 2>/dev/null) || {
    version=$(sed -n 's/^#define SLUICE_VERSION //p' src/base/version.h)
    commit=$(git log --format=%H -S "#define SLUICE_VERSION $version" -- src/base/version.h 2>/dev/null | tail -n 1)
}
[ -n "$commit" ] || exit 0
commit=$(git rev-parse "$commit^{commit}")
# In a clone without the commits before it the first one adds every file.
[ "$(git rev-parse --is-shallow-repository)" = false ] || exit 0

tree=$PWD/build/before/$commit
if [ ! -x "$tree/build/sluice" ]; then
    rm -rf "$tree"
    mkdir -p "$tree"
    git archive "$commit" | tar -x -C "$tree"
    # Where its libraries are built as today's are, these are the same.
    if git diff --quiet "$commit" HEAD -- deps; then
        mkdir -p "$tree/build"
        cp -R "${DEPS_CACHE:-build/deps}" "$tree/build/deps"
    fi
    # Make hands its own settings on by the environment: they are of today's sources.
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u DEPS_CACHE SYSTEM_DEPS=skip \
        make -C "$tree" -j "$(nproc)" build/sluice >"$tree/build.log" 2>&1 || {
        tail -n 50 "$tree/build.log" >&2
        exit 1
    }
fi
echo "$tree/build/sluice"
