#!/usr/bin/env bash
# Tests on a machine that is busy: tests/stress.sh [NAME...]
#
# Runs `make test` of the programs with one of NAME in their names (all), beside as many busy loops as there
# are processors; TIMES (1) of it, whatever comes out. Nothing is run a second time: each red run is a fault
# of the program or of its test. Exits 1 when a run was red.
set -eu
cd "$(dirname "$0")/.."

loops=()
trap 'kill "${loops[@]}" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
times=${TIMES:-1}
red=0

for ((i = $(nproc); i > 0; i--)); do
    while :; do :; done &
    loops+=($!)
done
for ((run = 1; run <= times; run++)); do
    begin=$SECONDS
    word=green
    TEST_AGAIN=0 make --no-print-directory test T="$*" || { word=red red=$((red + 1)); }
    echo "stress: run $run of $times was $word, $((SECONDS - begin)) s"
done
exit $((red > 0))
