# A Debian for a test, in a folder; sourced, from the root of the sources. It is removed when the
# script ends. The script exits with 1 if one of its checks failed.
#
# shellcheck shell=bash

# What it mounts is in a namespace of its own: nothing is left of it, however the test ends.
if [ "$(id -u)" = 0 ] && [ -z "${has_own_mounts:-}" ] && unshare --mount true 2>/dev/null; then
    has_own_mounts=yes exec unshare --mount "tests/operators/${0##*/}" "$@"
fi

work=$(mktemp -d)
chroot=$work/debian
debian_release=machine # so that the package's libraries fit
debian_packages=systemd,ca-certificates # in addition to Debian's minimum
number=0
failed=0
trap 'status=$?; remove_debian; rm -rf "$work"; exit $((failed ? 1 : status))' EXIT

# $1: the step's name, then a command, whose output is printed if it fails.
check()
{
    local what=$1
    shift
    number=$((number + 1))
    if "$@" >"$work/output" 2>&1; then
        echo "ok $number - $what"
    else
        failed=1
        echo "not ok $number - $what"
        sed 's/^/# /' "$work/output" | tail -n 40
    fi
}

may_chroot()
{
    [ "$(id -u)" = 0 ] && chroot / true 2>/dev/null
}

# From the mirror of this machine, with its apt's settings, and only with Debian's sources.
make_debian()
{
    local apt_dir=$work/apt suite=$debian_release mirror security
    export apt_dir
    # shellcheck disable=SC1091 # checked by itself
    . deps/apt.sh
    # shellcheck disable=SC1091 # of the machine
    [ "$suite" != machine ] || suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(apt_mirrors archive | head -n 1)
    security=$(apt_mirrors security | head -n 1)
    debootstrap --variant=minbase --include="$debian_packages" "$suite" "$chroot" "$mirror" || return 1
    cp -a /etc/apt/. "$chroot/etc/apt/"
    rm -rf "$chroot"/etc/apt/{sources.list,sources.list.d,preferences,preferences.d}
    printf 'deb %s main\n' "$mirror $suite" ${security:+"$security $suite-security"} >"$chroot/etc/apt/sources.list"
    cp -L /etc/resolv.conf /etc/hosts "$chroot/etc/"
    mount -t proc proc "$chroot/proc" || true
    in_debian apt-get -qq update
}

remove_debian()
{
    umount "$work"/*/{proc,dev/pts,dev/shm} 2>/dev/null || true
    rm -rf --one-file-system "$chroot"
}

in_debian()
{
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        chroot "$chroot" "$@"
}
