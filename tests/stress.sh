#!/usr/bin/env bash
# Runs tests on a busy machine: tests/stress.sh [NAME...]
#
# Runs those programs of `make test` that have one of NAME in their names (all by default), with as
# many busy loops as there are processors, TIMES (1) times, whatever their results are. Nothing is
# run a second time: each red run is a fault of the program or of its test. Exits with 1 if a run
# was red.
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
