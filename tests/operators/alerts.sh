#!/usr/bin/env bash
# The alerts of contrib/observability by promtool: their syntax, and when each fires.
set -u
cd "$(dirname "$0")/../.." || exit 1

number=0
check()
{
    local what=$1
    shift
    number=$((number + 1))
    if output=$("$@" 2>&1); then
        echo "ok $number - $what"
    else
        echo "not ok $number - $what"
        printf '%s\n' "$output" | sed 's/^/# /'
    fi
}

echo 1..2
check "the rules are well-formed" promtool check rules contrib/observability/alerts.yml
check "each alert fires for what it is for" promtool test rules tests/operators/alerts.yml
