# A Debian of a test's own, in a folder; sourced, from the root of the sources. What it makes is
# removed when the script ends.
# shellcheck shell=bash

work=$(mktemp -d)
chroot=$work/debian
trap 'umount "$work"/*/proc 2>/dev/null; rm -rf "$work"' EXIT
number=0

# $1: what, then a command; its output is shown where it fails.
check()
{
    local what=$1
    shift
    number=$((number + 1))
    if "$@" >"$work/output" 2>&1; then
        echo "ok $number - $what"
    else
        echo "not ok $number - $what"
        sed 's/^/# /' "$work/output" | tail -n 40
    fi
}

may_chroot()
{
    [ "$(id -u)" = 0 ] && chroot / true 2>/dev/null
}

# The mirror and the release of this machine, so that the package's libraries fit.
make_debian()
{
    local apt_dir=$work/apt suite mirror
    export apt_dir
    # shellcheck disable=SC1091 # checked by itself
    . deps/apt.sh
    # shellcheck disable=SC1091 # of the machine
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(apt_mirrors archive | head -n 1)
    debootstrap --variant=minbase --include=systemd,ca-certificates "$suite" "$chroot" "$mirror" || return 1
    rm -rf "$chroot/etc/apt" && cp -a /etc/apt "$chroot/etc/apt"
    cp -L /etc/resolv.conf /etc/hosts "$chroot/etc/"
    mount -t proc proc "$chroot/proc" || true
    in_debian apt-get -qq update
}

in_debian()
{
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        chroot "$chroot" "$@"
}
