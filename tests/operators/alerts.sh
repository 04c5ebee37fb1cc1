#!/usr/bin/env bash
# The alerts of contrib/observability, checked with promtool: their syntax, when each fires, and the
# queries of the dashboard.
set -u
cd "$(dirname "$0")/../.." || exit 1

number=0
failed=0
check()
{
    local what=$1
    shift
    number=$((number + 1))
    if output=$("$@" 2>&1); then
        echo "ok $number - $what"
    else
        failed=1
        echo "not ok $number - $what"
        printf '%s\n' "$output" | sed 's/^/# /'
    fi
}

# Each query as a rule of its own, with values for the dashboard's variables. A JSON string is also
# a YAML string.
check_dashboard()
{
    local rules count
    rules=$(mktemp) || return 1
    {
        printf 'groups:\n  - name: dashboard\n    rules:\n'
        # shellcheck disable=SC2016 # Grafana's variables
        sed -n 's/^ *"expr": \(".*"\),$/\1/p' contrib/observability/grafana.json |
            sed -e 's/\$__rate_interval/5m/g' -e 's/\$instance/.*/g' |
            awk '{ print "      - {record: panel:" NR ", expr: " $0 "}" }'
    } >"$rules"
    count=$(grep -c record "$rules")
    promtool check rules "$rules"
    set -- $?
    grep -n '\$' "$rules" && set -- 1 # a variable without a value here
    rm -f "$rules"
    [ "$1" = 0 ] && [ "$count" -gt 50 ]
}

echo 1..4
check "the rules are well-formed" promtool check rules contrib/observability/alerts.yml
check "each alert fires for its condition" promtool test rules tests/operators/alerts.yml
check "the dashboard's queries are well-formed" check_dashboard
check "the configuration names them" promtool check config contrib/observability/prometheus.yml
exit $failed
