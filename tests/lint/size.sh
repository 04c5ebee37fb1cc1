#!/usr/bin/env bash
# Warns about files over 1,000 lines and functions over 70. It never fails; a person decides. A
# function begins and ends with a brace in the first column, as .clang-format puts it.
set -eu
# shellcheck source=files.sh
. "$(dirname "$0")/files.sh"

# shellcheck disable=SC2046 # our paths contain no spaces
awk '
    FNR == 1 {
        if (file != "" && lines > 1000)
            print "warning: " file ": " lines " lines, split it by noun"
        file = FILENAME
        start = 0
    }
    { lines = FNR }
    /^{/ {
        start = FNR
        name = before
        sub(/\(.*/, "", name)
        sub(/.*[ *]/, "", name)
    }
    /^}/ && start {
        if (FNR - start - 1 > 70)
            print "warning: " FILENAME ":" start ": " name "() has " FNR - start - 1 " lines"
        start = 0
    }
    # The name is on the last line that begins in the first column.
    /^[A-Za-z_].*\(/ { before = $0 }
    END {
        if (lines > 1000)
            print "warning: " file ": " lines " lines, split it by noun"
    }' $(c_files src bench tests) /dev/null
