#!/usr/bin/env bash
# The Debian package: lintian, then installed, upgraded, removed and purged in a Debian of its own.
set -u
cd "$(dirname "$0")/../.." || exit 1

# shellcheck source=support/debian.sh
. tests/operators/support/debian.sh

# $1: folder, $2: version to use, or none.
make_package()
{
    make -s deb DEB_FOLDER="$1" && [ -n "$(ls "$1"/*.deb)" ] || return 1
    [ -n "${2:-}" ] || return 0
    dpkg-deb -R "$1"/*.deb "$work/tree" && rm "$1"/*.deb &&
        sed -i "s/^Version: .*/Version: $2/" "$work/tree/DEBIAN/control" &&
        dpkg-deb --root-owner-group -b "$work/tree" "$1/sluice_$2.deb"
}

is_reproduced()
{
    make_package "$work/two" && cmp "$work"/one/*.deb "$work"/two/*.deb
}

check_lintian()
{
    lintian --allow-root --tag-display-limit 0 --fail-on error,warning "$work"/one/*.deb
}

install_package()
{
    cp "$1"/*.deb "$chroot/sluice.deb" && in_debian apt-get -qq -y --no-install-recommends \
        --allow-downgrades -o Dpkg::Options::=--force-confold install /sluice.deb
}

# $1: path below the chroot, $2: expected "MODE USER:GROUP".
is_mode()
{
    local found
    found=$(in_debian stat -c '%a %U:%G' "$1")
    [ "$found" = "$2" ] || { echo "$1: $found, not $2"; return 1; }
}

is_installed_well()
{
    install_package "$work/one" >"$work/said" && in_debian sluice version && in_debian getent passwd sluice &&
        is_mode /etc/sluice/sluice.conf '640 root:sluice' &&
        is_mode /usr/bin/sluice '755 root:root' &&
        in_debian systemd-analyze verify --man=no /lib/systemd/system/sluice.service \
            /lib/systemd/system/sluice.socket &&
        [ -s "$chroot/usr/share/man/man5/sluice.conf.5.gz" ] &&
        gunzip -c "$chroot/usr/share/man/man1/sluice-bench.1.gz" | grep '^\.B \\-\\-rate R$'
}

doctor_of_the_server()
{
    in_debian setpriv --reuid=sluice --regid=sluice --clear-groups \
        sluice doctor --offline --config /etc/sluice/sluice.conf 2>&1
}

# As the server's user: it reads its settings, and says what is missing.
says_what_is_missing()
{
    local text
    text=$(doctor_of_the_server)
    printf '%s\n' "$text"
    case $text in *"FAIL  master-key"*"FAIL  database"*) ;; *) return 1 ;; esac
}

# Its commands for the first start: only the server can read the key, and the next command gets as
# far as the database, which does not exist here.
says_how_to_begin()
{
    local lines text
    lines=$(sed -n 's/^  \(sluice keys master.*\)$/\1/p; s/^  \(runuser.* migrate .*\)$/\1/p' "$work/said")
    text=$(in_debian sh -c "$lines" 2>&1)
    printf '%s\n%s\n' "$lines" "$text"
    case $text in "sluice migrate: "*"/run/postgresql"*) ;; *) return 1 ;; esac
    is_mode /etc/sluice/master-key '600 sluice:root' && doctor_of_the_server | grep '^ok    master-key' &&
        rm "$chroot/etc/sluice/master-key"
}

# zsh reads no keys here, so this calls its completion function and prints the result.
completes_words()
{
    in_debian apt-get -qq -y --no-install-recommends install zsh fish || return 1
    [ "$(in_debian fish -c 'complete -C "sluice accounts e"' | cut -f 1 | tr '\n' ' ')" = "enable erase export " ] &&
        in_debian fish -c 'complete -C "sluice serve --work"' | grep '^--workers	processes' &&
        in_debian fish -c 'complete -C "sluice keys create x --sc"' | grep '^--scopes	' || return 1
    # shellcheck disable=SC2016 # of zsh
    in_debian zsh -fc 'fpath=(/usr/share/zsh/vendor-completions); autoload -Uz _sluice
        _describe() { print -l -- ${(@P)2} }; _files() { print files }
        words=(sluice ""); CURRENT=2; _sluice >/dev/null
        words=(sluice accounts e); CURRENT=3; _sluice
        words=(sluice serve --); CURRENT=3; _sluice
        words=(sluice keys create x); CURRENT=4; _sluice' >"$work/zsh" 2>&1
    cat "$work/zsh"
    grep '^erase:' "$work/zsh" && grep '^--workers:processes' "$work/zsh" && [ "$(tail -n 1 "$work/zsh")" = files ]
}

keeps_settings()
{
    echo 'workers = 7' >>"$chroot/etc/sluice/sluice.conf"
    install_package "$work/next" && grep -q '^workers = 7$' "$chroot/etc/sluice/sluice.conf" &&
        is_mode /etc/sluice/sluice.conf '640 root:sluice' &&
        [ "$(in_debian dpkg-query -W sluice)" = "sluice	9.9.9" ]
}

# Replaces the program's own check of the schema, and systemd. $1: exit code of the former.
restarts()
{
    printf '#!/bin/sh\nexit %s\n' "$1" >"$chroot/usr/local/bin/sluice"
    rm -f "$chroot/tmp/asked"
    install_package "$work/one" && install_package "$work/next" || return 1
    [ -e "$chroot/tmp/asked" ]
}

is_restarted_on_its_schema()
{
    mkdir -p "$chroot/run/systemd/system"
    echo 'DPkg::Path "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";' >"$chroot/etc/apt/apt.conf.d/path"
    printf '#!/bin/sh\n[ "$*" != "try-restart sluice.service" ] || : >/tmp/asked\n' >"$chroot/usr/local/bin/deb-systemd-invoke"
    chmod 755 "$chroot/usr/local/bin/deb-systemd-invoke"
    : >"$chroot/usr/local/bin/sluice" && chmod 755 "$chroot/usr/local/bin/sluice"
    restarts 0 && ! restarts 1 && rm "$chroot/usr/local/bin/sluice" &&
        # the real program: there is no database here
        install_package "$work/one" && install_package "$work/next" >"$work/said" 2>&1 &&
        [ ! -e "$chroot/tmp/asked" ] && grep 'not restarted' "$work/said"
    local result=$?
    cat "$work/said"
    rm -rf "$chroot/run/systemd/system" "$chroot/etc/apt/apt.conf.d/path" "$chroot"/usr/local/bin/*
    return "$result"
}

is_removed()
{
    in_debian apt-get -qq -y remove sluice && [ ! -e "$chroot/usr/bin/sluice" ] &&
        [ -e "$chroot/etc/sluice/sluice.conf" ]
}

is_purged_but_for_the_key()
{
    install_package "$work/one" && in_debian sh -c 'sluice keys master >/etc/sluice/master-key' &&
        in_debian apt-get -qq -y purge sluice && [ ! -e "$chroot/etc/sluice/sluice.conf" ] &&
        [ -s "$chroot/etc/sluice/master-key" ]
}

is_purged()
{
    rm "$chroot/etc/sluice/master-key" && install_package "$work/one" &&
        in_debian apt-get -qq -y purge sluice && [ ! -e "$chroot/etc/sluice" ]
}

test_in_debian()
{
    if ! may_chroot; then
        for what in installed described begun completions upgraded restarted removed "purged but for the key" purged; do
            number=$((number + 1))
            echo "ok $number - $what # SKIP chroot is not allowed here"
        done
        return
    fi
    make_debian >"$work/debian.log" 2>&1 || { sed 's/^/# /' "$work/debian.log" | tail -n 20; }
    check "installed: user, modes, units, man pages" is_installed_well
    check "doctor says what is missing, as the server's user" says_what_is_missing
    check "its advice for the first start is right" says_how_to_begin
    check "zsh and fish complete commands, verbs and flags" completes_words
    check "upgraded: changed settings stay" keeps_settings
    check "upgraded: restarted if the schema is the program's" is_restarted_on_its_schema
    check "removed: settings stay" is_removed
    check "purged: the master key stays" is_purged_but_for_the_key
    check "purged: nothing stays" is_purged
}

echo 1..12
check "made" make_package "$work/one"
check "the same sources give the same package" is_reproduced
check "lintian finds nothing" check_lintian
make_package "$work/next" 9.9.9 >"$work/output" 2>&1 || sed 's/^/# /' "$work/output"
test_in_debian
