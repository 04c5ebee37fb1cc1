#!/usr/bin/env bash
# Runs the README's two commands on bare machines: tests/bare.sh [RELEASE...]
#
# For each release (stable and oldstable), it makes a Debian in a folder with only git and make,
# with a clone of HEAD, and with the corpora next to the clone. First as a user without root and
# sudo: `make run` and `make test` end with the message that says what to install. Then as root:
# `make run`, the README's three requests with the answers that it shows, Ctrl-C, and the whole
# `make test`, with STRICT=1 if it is set here. It prints the time of each step. The output of the
# steps is in build/bare/RELEASE.log.
#
# It needs root, 127.0.0.1:8080, 6 GB below TMPDIR (/var/tmp) and half an hour for each release. It
# runs in namespaces of its own: mounts and processes end with them, and the folder is removed in
# any case.
set -eu
cd "$(dirname "$0")/.."

READY_S_MAX=1800

fail()
{
    printf 'test-bare: %s\n' "$*" >&2
    exit 1
}

# --- Outside: the namespaces and the folder ------------------------------------------------------

folder=
inner=

# The end of a namespace's first process ends all others, but not at once.
leave()
{
    [ -z "$inner" ] || { kill -KILL "$inner" && wait "$inner"; } 2>/dev/null || true
    [ -z "$folder" ] || until rm -rf --one-file-system "$folder" 2>/dev/null; do sleep 0.1; done
}

outside()
{
    local status=0
    [ "$(id -u)" = 0 ] || fail "needs root: it makes a Debian in a folder, mounts what that needs, and changes into it"
    deps/system.sh bare
    trap leave EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    folder=$(TMPDIR=${TMPDIR:-/var/tmp} mktemp -d -t sluice-bare-XXXXXX)
    mkdir -p build/bare
    # Ctrl-C reaches only this process: the inner one runs in its own session.
    TMPDIR=$folder setsid unshare --mount --pid --fork --kill-child --mount-proc "$0" --inside "$@" </dev/null &
    inner=$!
    wait "$inner" || status=$?
    inner=
    exit "$status"
}

# --- Inside --------------------------------------------------------------------------------------

# $1: the step's name, then a command, whose output goes to the log.
step()
{
    local what=$1 begin=$SECONDS status=0
    shift
    printf '===== %s\n' "$what" >>"$log"
    "$@" >>"$log" 2>&1 || status=$?
    if [ "$status" != 0 ]; then
        tail -n 60 "$log" >&2
        fail "$release: $what: failed after $((SECONDS - begin)) s; the whole output is in $log"
    fi
    printf '%-9s  %-58s %5d s%s\n' "$release" "$what" $((SECONDS - begin)) "${note:+, $note}"
    note=
}

as_root()
{
    # bash makes background jobs ignore SIGINT
    in_debian env --default-signal=INT,QUIT HOME=/root bash -euc "cd /root/sluice; $1"
}

make_machine()
{
    make_debian || return 1
    mount -t devpts devpts "$chroot/dev/pts" && mount -t tmpfs -o mode=1777 tmpfs "$chroot/dev/shm" || return 1
    # authorities that this machine trusts besides Debian's
    mkdir -p "$chroot/usr/local/share" && cp -a /usr/local/share/ca-certificates "$chroot/usr/local/share/" || return 1
    git clone -q --no-hardlinks . "$chroot/root/sluice" || return 1
    [ ! -d "$SLUICE_CORPORA" ] || { mkdir "$chroot/root/shared" && cp -r "$SLUICE_CORPORA" "$chroot/root/shared/corpora"; } || return 1
    in_debian useradd -m guest && cp -a "$chroot/root/sluice" "$chroot/home/guest/sluice" &&
        in_debian chown -R guest: /home/guest && in_debian dpkg-query -W >"$work/packages"
}

# $1: the target. Only make's own lines may follow the message.
says_what_to_install()
{
    local said last
    said=$work/said
    ! in_debian runuser -l guest -c "cd sluice && make $1" >"$said" 2>&1 || return 1
    cat "$said"
    last=$(grep -v '^make: ' "$said" | tail -n 1)
    case $last in "deps: packages are missing and there is neither root nor sudo to install them; run as root: apt-get install "*) ;; *) return 1 ;; esac
    in_debian dpkg-query -W | cmp - "$work/packages"
}

# Prints the README's blocks of sh or json ($1) in the section with its three requests.
of_readme()
{
    awk -v fence="\`\`\`$1" '/^## /{ inside = $0 == "## Three requests" } inside && $0 == fence { code = 1; next }
        /^```/ { code = 0 } inside && code' README.md
}

# $1: a file with the answers, $2: a file with the README's answers, which are shortened.
answered_as_shown()
{
    perl -MJSON::PP -e '
        sub all { local (@ARGV, $/) = @_; my ($text, $json, @all) = (scalar <>, JSON::PP->new);
            while ($text =~ s/^\s*(?=\S)//) { my ($one, $length) = $json->decode_prefix($text); push @all, $one; substr($text, 0, $length) = "" }
            \@all }
        sub holds { my ($answer, $part, $at) = @_;
            if (ref $part eq "HASH") { holds(ref $answer eq "HASH" ? $answer->{$_} : undef, $part->{$_}, "$at/$_") for sort keys %$part }
            elsif (ref $part eq "ARRAY") { holds(ref $answer eq "ARRAY" ? $answer->[$_] : undef, $part->[$_], "$at/$_") for 0 .. $#$part }
            else { ($answer // "null") eq ($part // "null") or die "answer$at differs from the one in the README\n" } }
        my ($answers, $shown) = map { all($_) } @ARGV;
        @$shown == 5 && @$answers == @$shown or die "five answers are expected, but there are " . @$answers . "\n";
        holds($answers, $shown, "")' "$1" "$2"
}

# Prints the programs of the processes that run in the Debian.
running()
{
    local at
    for at in /proc/[0-9]*; do
        [ ! "$at/root" -ef "$chroot" ] || readlink "$at/exe" || true
    done
}

is_serving()
{
    (: </dev/tcp/127.0.0.1/8080) 2>/dev/null
}

# The server is ready once it listens, which `sluice dev` does last.
start_run()
{
    local end=$((SECONDS + READY_S_MAX))
    as_root 'echo $$ >/tmp/make_run; exec setsid make run' &
    run=$!
    until is_serving; do
        kill -0 "$run" 2>/dev/null && [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.2
    done
}

three_requests()
{
    of_readme json >"$work/shown"
    as_root "$(of_readme sh)" >"$work/answers" || return 1
    cat "$work/answers"
    answered_as_shown "$work/answers" "$work/shown"
}

# Ctrl-C goes to make and to everything that it runs.
stop_run()
{
    kill -INT -- "-$(cat "$chroot/tmp/make_run")" || return 1
    wait "$run" || true
    [ -z "$(running)" ] || { running; return 1; }
}

test_whole()
{
    as_root "$test_command" | tee "$work/test"
    # a red run may end with "0 failed": a test passed only at the second try (STRICT=1)
    [ "${PIPESTATUS[0]}" = 0 ] || return 1
    note=$(tail -n 1 "$work/test")
    case $note in *" passed, 0 failed, 0 skipped") return 0 ;; *" passed, 0 failed, "*" skipped") [ ! -d "$SLUICE_CORPORA" ] ;; *) return 1 ;; esac
}

inside()
{
    # shellcheck disable=SC2034 # read by debian.sh
    has_own_mounts=yes
    # shellcheck source=operators/support/debian.sh
    . tests/operators/support/debian.sh
    debian_packages=git,make
    test_command="make test${STRICT:+ STRICT=$STRICT}"
    for release in "$@"; do
        debian_release=$release
        log=build/bare/$release.log
        note=
        : >"$log"
        ! is_serving || fail "another program listens on 127.0.0.1:8080"
        step "a Debian with git and make, a clone" make_machine
        step "make run, as a user: says what to install" says_what_to_install run
        step "make test, as a user: says what to install" says_what_to_install test
        step "make run, as root, until it is ready" start_run
        step "the README's three requests" three_requests
        step "Ctrl-C ends all of it" stop_run
        step "$test_command, as root" test_whole
        remove_debian
    done
}

if [ "${1:-}" = --inside ]; then
    shift
    inside "$@"
else
    : "${SLUICE_CORPORA:=$PWD/../shared/corpora}"
    export SLUICE_CORPORA
    [ $# -gt 0 ] || set -- stable oldstable
    outside "$@"
fi
