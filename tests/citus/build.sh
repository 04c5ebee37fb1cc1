#!/usr/bin/env bash
# Builds Citus for the tests of sharded mode, with a PostgreSQL of its own to load it:
#
#   tests/citus/build.sh FOLDER
#
# FOLDER/bin then has initdb, postgres and psql that know `create extension citus`. Nothing of the
# system's PostgreSQL is changed: Debian's programs find their libraries and extensions by the way
# between their folders, so a copy of the three folders is an installation of its own.
#
# CITUS_SOURCE is an archive of the tag below; Citus is licensed under the AGPL, it is a neighbour
# to test against and no part of sluice. A folder that was built is kept while source and PostgreSQL
# are the same.
set -eu

readonly version=13.2.2
readonly source_sha256=6ffb1af003e08550f20e34a1544d77d82cf92ed896293d44676e2547d1d3372f
readonly default_source=../shared/citus/citus-v$version.tar.xz

folder=$(realpath -m "${1:?usage: tests/citus/build.sh FOLDER}")
log=$folder/build.log

say()
{
    printf 'citus: %s\n' "$*"
}

fail()
{
    printf 'citus: %s\n' "$*" >&2
    exit 1
}

# The newest major version whose server and headers are both there.
postgres_home()
{
    local major
    for major in $(cd /usr/lib/postgresql 2>/dev/null && printf '%s\n' * | sort -rV); do
        [ -e "/usr/lib/postgresql/$major/bin/postgres" ] || continue
        [ -e "/usr/include/postgresql/$major/server/postgres.h" ] || continue
        echo "/usr/lib/postgresql/$major"
        return
    done
    fail "no major version has /usr/lib/postgresql/*/bin/postgres and" \
        "/usr/include/postgresql/*/server: install Debian's postgresql-server-dev-15" \
        "(deps/system.sh citus does)"
}

check_source()
{
    [ -f "$source" ] || fail "no $source: set CITUS_SOURCE to an archive (tar.gz, tar.xz) of tag" \
        "v$version of the citus repository of Citus Data, with one folder at its top"
    [ "$source" != "$default_source" ] ||
        sha256sum "$source" | grep -q "^$source_sha256 " ||
        fail "$source is not the archive that is expected (sha256 $source_sha256)"
}

# Headers are linked, all else is copied: what gets installed must not reach the system's folders.
copy_postgres()
{
    local major
    major=$(basename "$home")
    rm -rf "${folder:?}/usr"
    mkdir -p "$folder/usr/lib/postgresql" "$folder/usr/share/postgresql"
    cp -a "$home" "$folder/usr/lib/postgresql/"
    cp -aL "/usr/share/postgresql/$major" "$folder/usr/share/postgresql/"
    ln -s /usr/include "$folder/usr/include"
    ln -s "/usr/lib/$(gcc -print-multiarch)" "$folder/usr/lib/$(gcc -print-multiarch)"
}

# PostgreSQL 15.20 declares a function of that name; 13.2.2 has one of its own.
rename_clash()
{
    grep -rl --include='*.[ch]' have_createdb_privilege "$1" |
        xargs -r sed -i 's/\bhave_createdb_privilege\b/citus_have_createdb_privilege/g'
}

build()
{
    local tree=$folder/source
    # Of a make that runs this: it has no built-in rules, which Citus' needs.
    unset MAKEFLAGS MFLAGS MAKELEVEL
    rm -rf "$tree"
    mkdir -p "$tree"
    tar -xf "$source" -C "$tree" --strip-components=1
    rename_clash "$tree/src"
    cd "$tree"
    ./configure PG_CONFIG="$folder/usr/lib/postgresql/$(basename "$home")/bin/pg_config" \
        --without-libcurl --with-lz4 --with-zstd
    make -j"$(nproc)" with_llvm=no extension
    make with_llvm=no install-extension
}

home=$(postgres_home)
source=${CITUS_SOURCE:-$default_source}
check_source
wanted="$(sha256sum <"$source") $("$home/bin/postgres" --version) $(sha256sum <"$0")"
if [ -e "$folder/is-built" ] && [ "$(cat "$folder/is-built")" = "$wanted" ]; then
    exit 0
fi
source=$(realpath "$source")
rm -rf "$folder"
mkdir -p "$folder"
say "building $(basename "$source") for $("$home/bin/postgres" --version), some minutes; output in $log"
copy_postgres
(build) >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    fail "Citus does not build (above: the end of $log)"
}
ln -s "usr/lib/postgresql/$(basename "$home")/bin" "$folder/bin"
rm -rf "$folder/source"
echo "$wanted" >"$folder/is-built"
say "built in $folder"
