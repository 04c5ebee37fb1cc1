#!/usr/bin/env bash
# Text that a commit must not contain: the host of a package registry or mirror (machines have their
# own, see deps/apt.sh), a path of a developer's machine, generated files.
#
# npm's lock files are written without addresses: omit-lockfile-registry-resolved=true.
set -eu
# shellcheck source=files.sh
. "$(dirname "$0")/files.sh"

# Written in parts, so that this file does not match itself.
hosts='https?://([a-z0-9-]+[.])*(deb|registry|mirrors?|snapshot|pypi|crates|npmjs)[.][a-z]'
paths='(^|[^A-Za-z0-9_./$}-])/(home|root|tmp|work)/[A-Za-z0-9_.-]+/[A-Za-z0-9_./-]+'

check_text()
{
    all_files | grep -v '^tests/lint/hosts\.sh$' | tr '\n' '\0' |
        xargs -0 -r grep -InHE "$1" | sed "s|^\([^:]*:[0-9]*\):.*|\1: $2|" || true
}

check_generated()
{
    all_files | grep -E '(^|/)(node_modules|build|\.sluice)/|\.(o|a|so|d|gcda|gcno|log|orig|rej)$' |
        sed 's/$/: is generated/' || true
}

verdict "hosts, paths and generated files" "$(
    check_text "$hosts" 'names the host of a registry or mirror'
    check_text "$paths" 'names a path of a machine'
    check_generated
)"
