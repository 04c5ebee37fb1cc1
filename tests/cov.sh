#!/usr/bin/env bash
# Prints line coverage by room and in total, from the counters of a run: tests/cov.sh BUILD
#
# `make cov` and `make cov-unit` call it. With FILES=1 it also prints a line for each file, least
# covered first. A file that no program ran counts with all its lines: gcov reads it from its .gcno
# alone.
set -eu

build=$1
find "$build/src" -name '*.gcno' | while read -r notes; do
    source=${notes#"$build"/}
    # the remains of a renamed file are not part of the tree
    [ ! -e "${source%.gcno}.c" ] || printf '%s\0' "$notes"
done | xargs -0 -r gcov -n 2>/dev/null | awk -v files="${FILES:-}" '
    /^File / {
        file = $2
        gsub(/\047/, "", file)
    }
    /^Lines executed:/ && file ~ /^src\// {
        split($0, part, /[:% ]+/)
        split(file, path, "/")
        total = part[5]
        hit = part[3] * total / 100
        if (!seen[file]++) {
            rooms[path[2]] += total
            hits[path[2]] += hit
            all += total
            all_hits += hit
            if (files) printf "%5.1f %%  %5d lines  %s\n", part[3], total, file | "sort -n"
        }
        file = ""
    }
    END {
        close("sort -n")
        for (room in rooms)
            printf "%5.1f %%  %5d lines  src/%s\n", 100 * hits[room] / rooms[room], rooms[room], room | "sort -k5"
        close("sort -k5")
        if (all) printf "%5.1f %%  %5d lines  in all\n", 100 * all_hits / all, all
    }'
