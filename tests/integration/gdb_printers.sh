#!/usr/bin/env bash
# contrib/gdb/sluice.py with a real program: a live op, a slice, a JSON value and an id are printed
# in their readable form.
#
# shellcheck disable=SC2016 # the dollars are gdb's and grep's
set -u
cd "$(dirname "$0")/../.." || exit 1

count=0
failed=0
check() # NAME TEXT WANTED
{
    count=$((count + 1))
    if grep -qE -- "$3" <<<"$2"; then
        echo "ok $count - $1"
    else
        failed=1
        printf 'not ok %s - %s\n# wanted: %s\n' "$count" "$1" "$3"
        echo "# ${2//$'\n'/$'\n'# }"
    fi
}

# $1: arguments of the program, $2...: commands
in_gdb()
{
    arguments=$1
    shift
    commands=()
    for command in "$@"; do commands+=(-ex "$command"); done
    ASAN_OPTIONS=detect_leaks=0 timeout 120 gdb -nx -batch -ex 'set debuginfod enabled off' \
        -x contrib/gdb/sluice.py -ex "set args $arguments" "${commands[@]}" "$SLUICE_BIN" 2>&1 </dev/null
}

# Stops at the server's first op_hold: an op waits for the database, which does not exist.
ops=$(in_gdb "serve --listen 127.0.0.1:0 --master-key $(printf '%064d' 1) --database-url postgresql://127.0.0.1:1/none" \
    'break op_hold' run 'print *op' 'op_print_all op->loop' 'print op->account_id')
check 'an op' "$ops" '^\$1 = op [a-z_]+ step [a-z_]+ holds 0 waits for nothing'
check 'op_print_all' "$ops" '^0x[0-9a-f]+ op [a-z_]+ step [a-z_]+ holds'
check 'an absent slice' "$ops" '= SLICE_NONE'
values=$(in_gdb 'catalog lint contrib/integrations/http.json' \
    'break json_parse' run 'finish' 'print *$' 'print source->text')
check 'a slice' "$values" '= "\{.n  ."integration_id.": ."http."'
check 'a JSON value' "$values" '= \{"integration_id": "http", '
id=$(in_gdb 'accounts create Acme --database-url postgresql://127.0.0.1:1/none' 'break uuid_v7' run 'finish')
check 'an id' "$id" '= [0-9a-f]{8}-[0-9a-f]{4}-7'
echo "1..$count"
exit $failed
