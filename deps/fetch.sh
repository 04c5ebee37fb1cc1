#!/usr/bin/env bash
# Brings the libraries that are linked statically into build/deps: include/, lib/*.a, versions.
#
#   deps/fetch.sh [LIBRARY...]          (all of them without arguments)
#
# Each library comes from the first source that has the wanted version: the system (pkg-config, a
# static archive), Debian stable, Debian testing. If none has it, the newest that is still
# accepted is taken, with a warning. A library that is in place is not searched again, and a
# download is kept and not fetched twice. DEPS_CACHE names another folder than build/deps, so
# that several clones can share one. CC (which may be several words: ccache gcc) and JOBS are
# honoured. cross.sh selects another architecture: CROSS_ARCHITECTURE, and the command that runs its programs
# (CROSS_RUN).
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
deps=${DEPS_CACHE:-$root/build/deps}
mkdir -p "$deps"
deps=$(cd "$deps" && pwd)
apt_dir=$deps/apt
# shellcheck disable=SC2034 # used by apt.sh
apt_architecture=${CROSS_ARCHITECTURE:-}
cc=$deps/work/cc
# shellcheck disable=SC2034 # used by the recipes
jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}

# shellcheck source=apt.sh
. "$root/deps/apt.sh"
# shellcheck source=recipes.sh
. "$root/deps/recipes.sh"

say()
{
    printf 'deps: %s\n' "$*"
}

fail()
{
    printf 'deps: %s\n' "$*" >&2
    exit 1
}

# Upstream's part of a Debian version: 1:9.2.1~7.3.0+dfsg-1 is 9.2.1.
upstream_version()
{
    echo "$1" | sed -e 's/^[0-9]*://' -e 's/[-+~].*//'
}

# $1 >= $2: upstream versions, whose order sort knows as well as dpkg does.
is_at_least()
{
    [ "$(printf '%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# $1 >= $2, and below $3.
version_within()
{
    is_at_least "$1" "$2" && ! is_at_least "$1" "$3"
}

# Without Debian's tools only the system's libraries can be used.
has_debian()
{
    command -v dpkg >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1
}

# The recipe of a library is part of its stamp: after a change of configuration it is built again.
stamp_key()
{
    recipe_inputs "$1" | cksum | tr ' ' '-'
}

is_in_place()
{
    [ -e "$deps/stamp/$1" ] && [ "$(sed -n 1p "$deps/stamp/$1")" = "$(stamp_key "$1")" ]
}

# $1: library, $2: version, $3: words that say where from. Written last, so it means "whole".
write_stamp()
{
    mkdir -p "$deps/stamp"
    printf '%s\n%s %s (%s)\n' "$(stamp_key "$1")" "$1" "$2" "$3" >"$deps/stamp/$1.new"
    mv "$deps/stamp/$1.new" "$deps/stamp/$1"
}

# CC may be several words (ccache gcc). One program stands for them, so that the recipes call one.
write_compiler()
{
    mkdir -p "$deps/work"
    printf '#!/bin/sh\nexec %s "$@"\n' "${CC:-gcc}" >"$cc"
    chmod +x "$cc"
}

# $1: library, $2: folder with include/ and lib/. Compiles, links and runs the recipe's probe: an
# archive for another C library, or with another configuration, is found here and not in the build.
probe()
{
    recipe_probe "$1" >"$2/probe.c"
    # shellcheck disable=SC2046 # flags are words
    "$cc" -std=c11 -D_GNU_SOURCE -fPIE -pie -isystem "$2/include" "$2/probe.c" \
        "$2/lib/lib$(recipe_archive "$1").a" $(recipe_link "$1") -o "$2/probe" \
        >"$2/probe.log" 2>&1 && ${CROSS_RUN:-} "$2/probe" >>"$2/probe.log" 2>&1
}

# $1: library, $2: staged folder. Moves a proven library into place.
install_staged()
{
    mkdir -p "$deps/include" "$deps/lib"
    cp -R "$2/include/." "$deps/include/"
    cp "$2/lib/"*.a "$deps/lib/"
}

# $1: library. Prints nothing; leaves include/ and lib/ in the staged folder $2.
stage_system()
{
    local pc libdir includedir name candidate part header
    pc=$(recipe_pkgconfig "$1")
    # A Debian archive may carry the name lib<x>_a.a (libuv), a hand-made install lib<x>.a.
    libdir=$(pkg-config --variable=libdir "$pc")
    name=$(recipe_archive "$1")
    for candidate in "$libdir/lib$name.a" "$libdir/lib${name}_a.a"; do
        [ -e "$candidate" ] || continue
        includedir=$(pkg-config --variable=includedir "$pc")
        mkdir -p "$2/include" "$2/lib"
        mkdir -p "$2/parts"
        cp "$candidate" "$2/parts/lib$name.a"
        for part in $(recipe_parts "$1"); do
            [ ! -e "$libdir/lib$part.a" ] || cp "$libdir/lib$part.a" "$2/parts/"
        done
        recipe_merge "$1" "$2/parts" "$2/lib/lib$name.a" || return 1
        for header in $(recipe_headers "$1"); do
            cp -RL "$includedir/$header" "$2/include/" || return 1
        done
        return 0
    done
    return 1
}

# A download that apt has verified is kept with its hashes, which are checked at each reuse.
is_downloaded()
{
    [ -e "$1/SHA256SUMS" ] && (cd "$1" && sha256sum --quiet -c SHA256SUMS >/dev/null 2>&1)
}

# $1: folder, $2: fetch function of apt.sh, $3: suite, $4: package, $5: version.
download()
{
    ! is_downloaded "$1" || return 0
    rm -rf "$1"
    mkdir -p "$1"
    "$2" "$3" "$4" "$5" "$1" || return 1
    (cd "$1" && sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
}

# $1: folder of the unpacked source, $2: download folder. Applies Debian's patch series.
apply_patches()
{
    local tarball series name
    tarball=$(find "$2" -name '*.debian.tar.*')
    [ -n "$tarball" ] && command -v patch >/dev/null 2>&1 || return 0
    mkdir -p "$1/.debian"
    tar -xf "$tarball" -C "$1/.debian" || return 1
    series=$1/.debian/debian/patches/series
    [ -e "$series" ] || return 0
    sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$series" | while read -r name _; do
        patch -d "$1" -p1 -s -f --no-backup-if-mismatch <"$1/.debian/debian/patches/$name" || exit 1
    done
}

# $1: download folder, $2: work folder, $3: "patched" or "plain". Unpacks a fresh tree into $2/src.
unpack_source()
{
    local tarball
    rm -rf "$2/src"
    mkdir -p "$2/src"
    for tarball in "$1"/*.orig.tar.*; do
        case $tarball in *.asc) continue ;; esac
        tar -xf "$tarball" -C "$2/src" --strip-components=1 || return 1
    done
    [ "$3" = plain ] || apply_patches "$2/src" "$1" >"$2/patch.log" 2>&1
}

# $1: library, $2: work folder, $3: download folder. Builds with the patches; where a patch does
# not apply or does not build (they are written for Debian's own build), without them.
stage_source()
{
    local mode
    for mode in patched plain; do
        rm -rf "${2:?}/include" "${2:?}/lib"
        mkdir -p "$2/include" "$2/lib"
        unpack_source "$3" "$2" "$mode" || continue
        recipe_build "$1" "$2/src" "$2" >"$2/build.log" 2>&1 && return 0
    done
    return 1
}

# $1: library, $2: work folder, $3: download folder. Takes headers and archive out of a package.
stage_archive()
{
    local header found
    mkdir -p "$2/root" "$2/include" "$2/lib"
    dpkg -x "$3"/*.deb "$2/root" || return 1
    for header in $(recipe_headers "$1"); do
        found=$(find "$2/root/usr/include" -name "$header" | head -n 1)
        [ -n "$found" ] || return 1
        cp -R "$found" "$2/include/"
    done
    recipe_merge "$1" "$2/root" "$2/lib/lib$(recipe_archive "$1").a"
}

# $1: library, $2: place, $3: way. Prints the full version offered there, if any.
offered_version()
{
    case $2-$3 in
    system-archive) pkg-config --modversion "$(recipe_pkgconfig "$1")" 2>/dev/null ;;
    *-source) apt_source_version "$2" "$(recipe_source "$1" "$2")" ;;
    *-archive) apt_binary_version "$2" "$(recipe_package "$1")" ;;
    esac
}

# $1: library, $2: place, $3: way, $4: full version, $5: work folder. Leaves a proven library there.
stage()
{
    local kept
    if [ "$2" = system ]; then
        stage_system "$1" "$5"
    else
        kept=$deps/download/$1-$2-$3-$(upstream_version "$4")
        if [ "$3" = source ]; then
            download "$kept" apt_fetch_source "$2" "$(recipe_source "$1" "$2")" "$4" &&
                stage_source "$1" "$5" "$kept"
        else
            download "$kept" apt_fetch_binary "$2" "$(recipe_package "$1")" "$4" &&
                stage_archive "$1" "$5" "$kept"
        fi
    fi
}

# $1: library, $2: place, $3: way, $4: lowest version. True when it is now in build/deps.
take_from()
{
    local full version work
    full=$(offered_version "$1" "$2" "$3" || true)
    [ -n "$full" ] || return 1
    version=$(upstream_version "$full")
    version_within "$version" "$4" "$(recipe_below "$1")" || return 1
    work=$deps/work/$1
    rm -rf "$work"
    mkdir -p "$work"
    if stage "$1" "$2" "$3" "$full" "$work" && probe "$1" "$work"; then
        install_staged "$1" "$work"
        write_stamp "$1" "$version" "$(place_words "$2" "$3")"
        rm -rf "$work"
        return 0
    fi
    say "$1 $version ($(place_words "$2" "$3")) cannot be used; trying the next source"
    rm -rf "$deps/failed/$1"
    mkdir -p "$deps/failed"
    mv "$work" "$deps/failed/$1"
    return 1
}

place_words()
{
    case $1-$2 in
    system-*) echo "the system's" ;;
    *-source) echo "built from the source in Debian $1" ;;
    *) echo "the archive in Debian $1" ;;
    esac
}

# $1: library. Lines "VERSION PLACE WAY" for all accepted offers, newest first.
accepted_offers()
{
    local place way full version
    for place in system stable testing; do
        [ "$place" = system ] || { has_debian && apt_open "$place"; } || continue
        for way in $(recipe_ways "$1"); do
            [ "$place-$way" != system-source ] || continue
            full=$(offered_version "$1" "$place" "$way" || true)
            [ -n "$full" ] || continue
            version=$(upstream_version "$full")
            if version_within "$version" "$(recipe_accepted "$1")" "$(recipe_below "$1")"; then
                echo "$version $place $way"
            fi
        done
    done | sort -s -k1,1Vr
}

# $1: library. The first place with the version wanted.
take_wanted()
{
    local wanted place way
    wanted=$(recipe_wanted "$1")
    ! take_from "$1" system archive "$wanted" || return 0
    has_debian || return 1
    for place in stable testing; do
        if ! apt_open "$place"; then
            say "Debian $place is unreachable ($(sed -n '/^[EW]:/p' "$apt_dir/$place/update.log" \
                2>/dev/null | head -n 1))"
            continue
        fi
        for way in $(recipe_ways "$1"); do
            ! take_from "$1" "$place" "$way" "$wanted" || return 0
        done
    done
    return 1
}

# $1: library. The newest that is still accepted, with a warning.
take_accepted()
{
    local offers version place way
    offers=$deps/offers
    accepted_offers "$1" >"$offers"
    while read -r version place way; do
        if take_from "$1" "$place" "$way" "$version"; then
            say "warning: $1 $version is older than the $(recipe_wanted "$1") wanted; it is" \
                "accepted because no place has that ($(recipe_warning "$1"))"
            return 0
        fi
    done <"$offers"
    return 1
}

take()
{
    ! is_in_place "$1" || return 0
    say "$1: looking for $(recipe_wanted "$1") or newer"
    take_wanted "$1" || take_accepted "$1" ||
        fail "no usable $1 (at least $(recipe_accepted "$1"), below $(recipe_below "$1")) was" \
            "found: not installed with a static archive, and" \
            "$(if has_debian; then
                echo "Debian stable and testing offered none through this machine's apt."
            else echo "without dpkg and apt there is no other source."; fi) Install it where pkg-config finds it" \
            "($(recipe_pkgconfig "$1"), with lib$(recipe_archive "$1").a) and run again." \
            "$(failure_detail "$1")"
    say "$(sed -n 2p "$deps/stamp/$1")"
}

# $1: library. Where to find the logs of a failed attempt.
failure_detail()
{
    if [ -d "$deps/failed/$1" ]; then
        echo "The last attempt, with its logs: $deps/failed/$1"
    elif [ -s "$apt_dir/last.log" ]; then
        sed -n '/^[EW]:/p' "$apt_dir/last.log" | head -n 1
    fi
}

# $1: file, new content on stdin. Its time changes only with its content, since make compares times.
write_if_changed()
{
    cat >"$1.new"
    if cmp -s "$1.new" "$1"; then rm "$1.new"; else mv "$1.new" "$1"; fi
}

# cflags: for headers that the distribution keeps in folders of their own, one line, read by the
# Makefile's recipes. versions: for people, and to tell make that a library is another one now.
write_summary()
{
    local stamp
    pkg-config --exists libpq libpcre2-8 ||
        fail "pkg-config does not know libpq or libpcre2-8; run deps/system.sh build"
    pkg-config --cflags libpq libpcre2-8 | sed 's/-I/-isystem /g' |
        write_if_changed "$deps/cflags"
    for stamp in "$deps/stamp/"*; do
        echo "$(sed -n 2p "$stamp") $(sed -n 1p "$stamp")"
    done | write_if_changed "$deps/versions"
}

main()
{
    local library
    # One at a time: clones may share the folder, and make may be run twice at once.
    exec 9>"$deps/lock"
    flock 9
    rm -rf "$apt_dir"
    mkdir -p "$apt_dir"
    write_compiler
    # shellcheck disable=SC2086 # a list of words
    [ $# -gt 0 ] || set -- $recipe_all
    for library in "$@"; do
        take "$library"
    done
    write_summary
    # Tens of megabytes of package lists are useless once everything is in place.
    rm -rf "$apt_dir" "$deps/work" "$deps/offers"
}

main "$@"
