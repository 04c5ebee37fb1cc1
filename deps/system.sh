#!/usr/bin/env bash
# Installs the missing system packages that sluice needs, group by group.
#
#   deps/system.sh GROUP...        build run test e2e lint fuzz package cross operators bare
#
# Only missing packages are installed, without recommendations and without questions. No service is
# started or enabled: PostgreSQL creates no cluster if it was not installed before,
# and nginx is needed only as a program. Without root and sudo, or without apt, it says what to
# install by hand. SYSTEM_DEPS=check installs nothing: it lists missing packages and exits with 1. SYSTEM_DEPS=skip
# changes nothing (for systems other than Debian).
set -eu

say()
{
    printf 'deps: %s\n' "$*"
}

fail()
{
    printf 'deps: %s\n' "$*" >&2
    exit 1
}

# Any server will do, whatever package it came with.
has_postgres()
{
    ls -d /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1
}

# The dashboard's tests need no window: the shell is the smallest of Debian's packages of Chromium.
has_browser()
{
    command -v chromium-headless-shell >/dev/null 2>&1 || command -v chromium >/dev/null 2>&1
}

group_packages()
{
    case $1 in
    build)
        echo gcc libc6-dev make pkg-config patch bzip2 xz-utils ca-certificates libuv1-dev
        echo libpq-dev libpcre2-dev libstemmer-dev libyaml-dev zlib1g-dev
        ;;
    run)
        has_postgres || echo postgresql
        command -v curl >/dev/null 2>&1 || echo curl # of the requests that the README shows
        ;;
    test)
        echo libcmocka-dev nginx openssl curl clang-format gdb
        command -v systemd-analyze >/dev/null 2>&1 || echo systemd # the program, to check the unit files
        ;;
    e2e)
        command -v npm >/dev/null 2>&1 || echo npm
        has_browser || echo chromium-headless-shell
        echo pngquant haproxy caddy pgbouncer
        ;;
    lint) echo clang-format clang-tidy clang cppcheck shellcheck ;;
    fuzz) echo clang libclang-rt-dev llvm python3 python3-jmespath ;;
    package) echo dpkg-dev ;;
    cross) echo dpkg-dev gcc-aarch64-linux-gnu ;;
    operators)
        echo prometheus lintian debootstrap dpkg-dev man-db gcc-aarch64-linux-gnu qemu-user-static
        echo pgbouncer patroni python3-etcd etcd-server docker-compose
        ;;
    bare) echo debootstrap git ;;
    *) fail "no such group: $1 (build run test e2e lint fuzz package cross operators bare)" ;;
    esac
}

is_installed()
{
    # A package may be installed under another name (nginx-core for nginx): its Provides counts.
    dpkg-query -W -f '${db:Status-Abbrev} ${Package}, ${Provides}\n' 2>/dev/null |
        awk -v want="$1" '/^.i/ { gsub(/\([^)]*\)|,/, ""); for (i = 2; i <= NF; i++)
            if ($i == want) found = 1 } END { exit !found }'
}

# One query for all of them: this runs at every first build.
missing_packages()
{
    local package
    for package in "$@"; do
        is_installed "$package" || echo "$package"
    done
}

as_root()
{
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

can_be_root()
{
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }
}

apt_install()
{
    as_root env DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1 \
        apt-get -qq -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 \
        -o Dpkg::Options::=--force-confold --no-install-recommends install "$@" >"$log" 2>&1
}

apt_update()
{
    as_root apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 update >"$log" 2>&1
}

# Package lists may be missing or old: try once more with fresh ones before giving up.
apt_install_fresh()
{
    apt_install "$@" || { apt_update && apt_install "$@"; }
}

# Debian asks this file whether a service may start; 101 means no. A file that the machine already
# has is not changed.
policy=/usr/sbin/policy-rc.d
made_policy=no
forbid_services()
{
    [ ! -e "$policy" ] || return 0
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    made_policy=yes
    as_root chmod 755 "$policy"
}

allow_services()
{
    [ "$made_policy" = no ] || as_root rm -f "$policy"
    made_policy=no
}

# If no PostgreSQL is installed yet, its package would create and start a cluster.
forbid_main_cluster()
{
    is_installed postgresql-common || apt_install_fresh postgresql-common || return 1
    as_root mkdir -p /etc/postgresql-common/createcluster.d
    echo 'create_main_cluster = false' |
        as_root tee /etc/postgresql-common/createcluster.d/sluice.conf >/dev/null
    made_cluster_policy=yes
}

# This holds only for our installation: a cluster that is requested later is created as always.
made_cluster_policy=no
allow_main_cluster()
{
    [ "$made_cluster_policy" = no ] ||
        as_root rm -f /etc/postgresql-common/createcluster.d/sluice.conf
    made_cluster_policy=no
}

leave()
{
    allow_services
    allow_main_cluster
    rm -f "$log"
}

# Neither may start at the next boot only because tests needed the program.
disable_service()
{
    ! command -v systemctl >/dev/null 2>&1 || as_root systemctl disable "$1" >/dev/null 2>&1 || true
}

install_packages()
{
    forbid_services
    case " $* " in *" postgresql "*) forbid_main_cluster || return 1 ;; esac
    apt_install_fresh "$@" || return 1
    for service in nginx prometheus pgbouncer patroni etcd; do
        case " $* " in *" $service "* | *" $service-server "*) disable_service "$service" ;; esac
    done
}

install_group()
{
    local missing
    command -v dpkg-query >/dev/null 2>&1 ||
        fail "there is no dpkg; install the contents of these Debian packages, then set SYSTEM_DEPS=skip:" \
            "$(group_packages "$1" | tr '\n' ' ')"
    # shellcheck disable=SC2046 # a list of words
    missing=$(missing_packages $(group_packages "$1") | tr '\n' ' ')
    missing=${missing% }
    [ -n "$missing" ] || return 0
    [ "${SYSTEM_DEPS:-}" != check ] ||
        fail "missing to $1: $missing; \`make deps\` installs the packages for building, or as root:" \
            "apt-get install --no-install-recommends $missing"
    command -v apt-get >/dev/null 2>&1 ||
        fail "there is no apt-get; install the contents of these Debian packages, then set SYSTEM_DEPS=skip:" \
            "$missing"
    can_be_root ||
        fail "packages are missing and there is neither root nor sudo to install them; run as root:" \
            "apt-get install $missing"
    say "installing for $1: $missing"
    # shellcheck disable=SC2086 # a list of words
    install_packages $missing || {
        cat "$log" >&2
        fail "apt could not install: $missing (its errors are above)"
    }
}

main()
{
    local group
    case ${SYSTEM_DEPS:-install} in
    install | check) ;;
    skip) return 0 ;;
    *) fail "SYSTEM_DEPS is install, check or skip, not \"$SYSTEM_DEPS\"" ;;
    esac
    # make asks for several groups at once; apt and the policies below are for one at a time.
    exec 9<"$0"
    flock 9
    log=$(mktemp)
    trap leave EXIT
    trap 'exit 130' INT TERM
    for group in "$@"; do
        install_group "$group"
    done
}

main "$@"
