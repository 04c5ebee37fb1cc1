#!/usr/bin/env bash
# What contributors' tools do: the counter of code lines, libraries on a machine without dpkg.
set -u
cd "$(dirname "$0")/../.." || exit 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0

# $1: what, $2: found, $3: wanted.
is()
{
    number=$((number + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        printf '%s\n' "found:" "$2" "wanted:" "$3" | sed 's/^/# /'
    fi
}

test_count()
{
    mkdir -p "$work/src/base" "$work/src/web" "$work/sql"
    cat >"$work/src/base/a.c" <<'END'
/*
 * int not_code;
 */
int a; /* begins here
        * and ends here */
const char *url = "http://host/*"; // not a comment before this
char quote = '"', other = '/';

/* b */ int b;
END
    printf '<!-- a\n b -->\n<p>\n\n</p>\n' >"$work/src/web/a.html"
    # shellcheck disable=SC2016 # JavaScript's
    printf 'const a = `//`;\n// b\n/* c\n */\n' >"$work/src/web/a.mjs"
    printf -- '-- a\nselect 1 -- b\n' >"$work/sql/1.sql"
    is "code lines are neither blank nor comment" \
        "$(perl tests/count.pl "$work" src/base/a.c src/web/a.html src/web/a.mjs sql/1.sql |
            awk 'NR > 1 { print $1, $2, $3, $4 }' | tr '\n' ';')" \
        "base 4 0 4;web 0 3 3;sql 0 1 1;sum 4 4 8;"
}

# The programs of this machine without those of Debian's packages; ccache finds no compiler by links.
path_without_debian()
{
    local folder
    mkdir -p "$work/bin"
    IFS=: read -ra folders <<<"$PATH"
    for folder in "${folders[@]}"; do
        [[ $folder == *ccache* ]] || ln -s "$folder"/* "$work/bin/" 2>/dev/null
    done
    rm -f "$work/bin/"dpkg* "$work/bin/"apt*
}

# $1: library, $2: name for pkg-config, $3: version.
write_pc()
{
    printf 'libdir=%s/lib\nincludedir=%s/include\nName: %s\nDescription: %s\nVersion: %s\n' \
        "$work/prefix" "$work/prefix" "$1" "$1" "$3" >"$work/prefix/pkgconfig/$2.pc"
}

# With SYSTEM_DEPS=skip the libraries that pkg-config knows are enough.
test_without_dpkg()
{
    local deps
    deps=$(cd "${DEPS_CACHE:-build/deps}" && pwd)
    mkdir -p "$work/prefix/pkgconfig"
    cp -R "$deps/include" "$deps/lib" "$work/prefix/"
    write_pc libuv libuv 1.44.2
    write_pc llhttp libllhttp 9.4.0
    write_pc mbedtls mbedtls 3.6.7
    write_pc yyjson yyjson 0.10.0
    path_without_debian
    is "libraries come from pkg-config where there is no dpkg" \
        "$(PATH="$work/bin" SYSTEM_DEPS=skip DEPS_CACHE="$work/deps" \
            PKG_CONFIG_PATH="$work/prefix/pkgconfig" deps/fetch.sh 2>&1 | grep -v 'looking for')" \
        "$(printf "deps: %s (the system's)\n" "libuv 1.44.2" "llhttp 9.4.0" "mbedtls 3.6.7" \
            "yyjson 0.10.0")"
    is "what is missing is named where there is no dpkg" \
        "$(PATH="$work/bin" SYSTEM_DEPS=check deps/system.sh run 2>&1 | cut -d ';' -f 1)" \
        "deps: no dpkg here"
}

test_count
test_without_dpkg
echo "1..$number"
