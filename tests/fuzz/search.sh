#!/usr/bin/env bash
# Lets one fuzz program search for a while: tests/fuzz/search.sh PROGRAM NAME SECONDS
#
# It starts from tests/fuzz/corpus/<name>, which is only read. New inputs are stored in
# build/fuzz/corpus/NAME and crashing inputs in build/fuzz/crashes. A crash ends it with an error:
# repair the fault and copy the input into the corpus, from which `make test` replays it from then
# on.
set -eu

program=$1
name=$2
seconds=$3
seeds=tests/fuzz/corpus/$name
found=build/fuzz/corpus/$name

mkdir -p "$found" build/fuzz/crashes
folders=("$found")
[ ! -d "$seeds" ] || folders+=("$seeds")
echo "fuzz: $name for $seconds s"
if ! "$program" -max_total_time="$seconds" -artifact_prefix="build/fuzz/crashes/$name-" \
    -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 "${folders[@]}" \
    >"build/fuzz/$name.log" 2>&1; then
    tail -n 60 "build/fuzz/$name.log" >&2
    echo "fuzz: $name failed, see build/fuzz/$name.log" >&2
    exit 1
fi
awk '/stat::number_of_executed_units/ { runs = $2 } /stat::new_units_added/ { units = $2 }
    END { printf "fuzz: %s ok, %d runs, %d new inputs\n", name, runs, units }' \
    name="$name" "build/fuzz/$name.log"
