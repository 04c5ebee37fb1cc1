#!/usr/bin/env bash
# The first day of contrib/deploy/README.md: its commands run in a separate Debian. It has no init,
# so a small systemctl there runs the unit's commands.
set -u
cd "$(dirname "$0")/../.." || exit 1

# shellcheck source=support/debian.sh
. tests/operators/support/debian.sh
page=contrib/deploy/README.md

# The sections' lines of shell, each block preceded by "# NAME" from the sentence before it.
blocks()
{
    awk '/^### /{ inside = /^### The first day/ }
        inside && /^```sh/ { code = 1; print "# " name; next }
        inside && /^```/ { code = 0 }
        inside && code { print; next }
        inside && NF { name = $0 }' "$page"
}

# $1: the block's number, from 1.
block()
{
    blocks | awk -v wanted="$1" '/^# /{ number++ } number == wanted'
}

# The page's uses of systemctl, with the unit's own lines.
put_systemctl()
{
    cat >"$chroot/usr/local/bin/systemctl" <<'END'
#!/bin/bash
# start, stop, restart, enable --now, kill --signal=S of sluice; start and stop of postgresql
set -u
unit=${*: -1}
value() { sed -n "s/^$1=//p" /lib/systemd/system/sluice.service; }
start()
{
    if [ "$unit" = postgresql ]; then
        pg_lsclusters -h | while read -r version name _; do
            echo "listen_addresses = ''" >>"/etc/postgresql/$version/$name/postgresql.conf"
            pg_ctlcluster "$version" "$name" start
        done
        return
    fi
    install -D -o sluice -m 400 /etc/sluice/master-key /run/credentials/master-key
    rm -f /run/sluice.ready
    while runuser -u sluice -- env SLUICE_MASTER_KEY_FILE=/run/credentials/master-key \
        $(value ExecStart) >>/var/log/sluice.log 2>&1; [ $? = 137 ]; do :; done &
    for _ in $(seq 300); do
        sluice healthcheck --config /etc/sluice/sluice.conf >/dev/null 2>&1 && return
        sleep 0.1
    done
    tail /var/log/sluice.log
    exit 1
}
stop()
{
    if [ "$unit" = postgresql ]; then
        pg_lsclusters -h | while read -r version name _; do pg_ctlcluster --mode fast "$version" "$name" stop; done
    else
        send TERM
        while [ -n "$(servers)" ]; do sleep 0.1; done
    fi
}
# Prints the servers whose root is this script's root.
servers()
{
    for at in /proc/[0-9]*; do
        [ "$at/root" -ef / ] && [ "$(readlink "$at/exe" 2>/dev/null)" = /usr/bin/sluice ] && grep -qz '^serve$' "$at/cmdline" && echo "${at#/proc/}"
    done
}
send() { servers | xargs -r kill -s "$1"; }
case $1 in
enable | start) start ;;
stop) stop ;;
restart) stop; start ;;
kill) send "${2#--signal=}" ;;
*) echo "systemctl $*: not known here" >&2; exit 1 ;;
esac
END
    chmod 755 "$chroot/usr/local/bin/systemctl"
}

# Each block runs in the shell of the earlier ones, as on one terminal.
run_block()
{
    block "$1" >"$chroot/tmp/block"
    in_debian timeout 300 bash -euc 'cd /tmp; . ./state; . ./block; { declare -p KEY version || true; declare -f operate; } >state 2>/dev/null'
}

make_machine()
{
    make -s deb DEB_FOLDER="$work/made" && make_debian && put_systemctl || return 1
    cp "$work"/made/*.deb "$chroot/tmp/" && : >"$chroot/tmp/state"
    # these need an init
    printf '#!/bin/sh\nexit 101\n' >"$chroot/usr/sbin/policy-rc.d" && chmod 755 "$chroot/usr/sbin/policy-rc.d"
    in_debian apt-get -qq -y --no-install-recommends install postgresql || return 1
    echo "listen_addresses = ''" >>"$chroot/etc/postgresql-common/createcluster.conf" # for the standby
    in_debian systemctl start postgresql
}

count=$(blocks | grep -c '^# ')
echo "1..$((count + 1))"
if may_chroot; then
    check "a Debian with PostgreSQL" make_machine
    for i in $(seq "$count"); do
        check "$(block "$i" | sed -n '1s/^# //p')" run_block "$i"
    done
    in_debian systemctl stop sluice >/dev/null 2>&1
    in_debian systemctl stop postgresql >/dev/null 2>&1 # stops all clusters
else
    for i in $(seq $((count + 1))); do echo "ok $i - a part of the first day # SKIP chroot is not allowed here"; done
fi
