#!/usr/bin/env bash
# Functions that may not be called: they have no bound, no error, or are not thread-safe. Comments
# and strings are not checked, and longer names that contain one (localtime_r) are allowed. Use
# instead: snprintf or a base buffer; strtol or a similar function with a check; gmtime_r; the base
# random. A machine's wall clock is only for logs, traces, ids, TLS and HTTP's Date. Times that
# another process may compare come from clock_shared_us (base/clock.h).
set -eu
# shellcheck source=files.sh
. "$(dirname "$0")/files.sh"

banned='sprintf vsprintf strcpy strcat strtok atoi atol atoll gets rand srand localtime gmtime'

wall='^src/(base|trace|tls)/|^src/(exec|api)/trace.c|^src/node/node.c|^src/http/server.c|^src/cli/doctor_'

# shellcheck disable=SC2046 # our paths contain no spaces
found=$(awk -v banned="$banned" -v wall="$wall" '
    BEGIN {
        count = split(banned, name, " ")
    }
    FNR == 1 {
        in_comment = 0
    }
    {
        code = $0
        gsub(/\\./, "", code)          # escapes, so that a quote inside a string ends nothing
        gsub(/\047[^\047]*\047/, "0", code)
        gsub(/"[^"]*"/, "\"\"", code)
        if (in_comment) {
            if (!sub(/^.*\*\//, "", code))
                next
            in_comment = 0
        }
        while (match(code, /\/\*/)) {
            before = substr(code, 1, RSTART - 1)
            rest = substr(code, RSTART + 2)
            end = index(rest, "*/")
            if (!end) {
                in_comment = 1
                code = before
                break
            }
            code = before " " substr(rest, end + 2)
        }
        sub(/\/\/.*/, "", code)
        for (i = 1; i <= count; i++)
            if (code ~ "(^|[^A-Za-z0-9_.>])" name[i] "[ \t]*\\(")
                print FILENAME ":" FNR ": " name[i] "() is banned"
        if (code ~ /clock_wall_us[ \t]*\(/ && FILENAME ~ /^src\// && FILENAME !~ wall)
            print FILENAME ":" FNR ": clock_wall_us() is banned here: clock_shared_us()"
    }' $(c_files src bench tests) /dev/null)

verdict "banned functions" "$found"
