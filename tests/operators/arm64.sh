#!/usr/bin/env bash
# The Debian package for arm64, cross-compiled on a machine of another architecture: its files and
# dependencies, and that its programs run (with QEMU, without an arm64 Debian).
set -u
cd "$(dirname "$0")/../.." || exit 1

# shellcheck source=support/debian.sh
. tests/operators/support/debian.sh
what="the package of a machine of another architecture"
if [ "$(dpkg --print-architecture)" = arm64 ]; then
    echo 1..1
    echo "ok 1 - $what # SKIP this machine is arm64: tests/operators/package.sh makes that package"
    exit 0
fi

# The state of the machine, which cross.sh must not change.
installed()
{
    dpkg --print-foreign-architectures && dpkg-query -W
}

make_packages()
{
    installed >"$work/before" && make -s deb DEB_FOLDER="$work/own" &&
        make -s deb DEB_ARCH=arm64 DEB_FOLDER="$work/other" && installed | diff "$work/before" -
}

# Every program, as the processor sees it.
is_of_arm64()
{
    local program count=0
    dpkg-deb -x "$work"/other/*_arm64.deb "$work/tree" || return 1
    for program in "$work"/tree/usr/bin/*; do
        file -b "$program"
        case $(file -b "$program") in "ELF 64-bit LSB pie executable, ARM aarch64,"*stripped) ;; *) return 1 ;; esac
        count=$((count + 1))
    done
    [ "$count" = 2 ] && [ "$(dpkg-deb -f "$work"/other/*.deb Architecture)" = arm64 ]
}

# $1: package. Names of packages are the same on every architecture. Versions are those of the
# linked libraries.
depends_of()
{
    dpkg-deb -f "$1" Depends | sed 's/ ([^)]*)//g' | tr ',' '\n' | sort -u
}

depends_on_the_same()
{
    depends_of "$work"/own/*.deb >"$work/own.depends" && depends_of "$work"/other/*.deb | diff "$work/own.depends" -
}

# All files except the programs are the same, byte for byte.
holds_the_same()
{
    dpkg-deb -x "$work"/own/*.deb "$work/own_tree" && diff -r -x bin "$work/own_tree" "$work/tree"
}

check_lintian()
{
    lintian --allow-root --tag-display-limit 0 --fail-on error,warning "$work"/other/*.deb
}

on_arm64()
{
    qemu-aarch64-static -L "${DEPS_CACHE:-build/deps}/arm64/sysroot" "$work/tree/usr/bin/sluice" "$@"
}

# Uses the catalog that this machine's program packed, search over it, YAML, libstemmer, Mbed TLS,
# libpq.
runs()
{
    local text key
    [ "$(on_arm64 version)" = "$(build/sluice version)" ] &&
        on_arm64 catalog lint contrib/integrations/*.json &&
        key=$(on_arm64 keys master) && [ "${#key}" = 44 ] || return 1
    on_arm64 catalog search 'remind the team on slack' >"$work/found" &&
        build/sluice catalog search 'remind the team on slack' | diff - "$work/found" || return 1
    text=$(on_arm64 doctor --database-url postgresql://nobody@127.0.0.1:1/none --master-key "$key" 2>&1) # words: ok
    printf '%s\n' "$text"
    case $text in *"ok    master-key"*"ok    catalog"*"FAIL  database"*"127.0.0.1"*) ;; *) return 1 ;; esac
}

# What may differ between processors: unsigned characters, rounding, alignment.
passes_unit_tests()
{
    local program
    local programs=(tests/unit/{json/test_{value,write,yaml},expr/test_{expr,template},schema/test_schema,mime/test_mime,base/test_{encode,slice,metric}})
    make -s DEB_ARCH=arm64 "${programs[@]/#/build/arm64/}" || return 1
    for program in "${programs[@]}"; do
        qemu-aarch64-static -L "${DEPS_CACHE:-build/deps}/arm64/sysroot" "build/arm64/$program" || return 1
    done
}

echo 1..7
check "made, without a change to the machine's packages" make_packages
check "its programs are for arm64" is_of_arm64
check "it depends on the same packages" depends_on_the_same
check "it holds the same files" holds_the_same
check "lintian finds nothing" check_lintian
if command -v qemu-aarch64-static >/dev/null 2>&1; then
    check "its programs run" runs
    check "unit tests pass" passes_unit_tests
else
    for what in "its programs run" "unit tests pass"; do
        number=$((number + 1))
        echo "ok $number - $what # SKIP no qemu-aarch64-static here"
    done
fi
