#!/usr/bin/env bash
# What contributors' tools do: the counter of code lines, libraries on a machine without dpkg, and
# the test runner.
set -u
cd "$(dirname "$0")/../.." || exit 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0
failed=0

# $1: the test's name, $2: the result, $3: the expected one.
is()
{
    number=$((number + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $number - $1"
    else
        failed=1
        echo "not ok $number - $1"
        printf '%s\n' "found:" "$2" "wanted:" "$3" | sed 's/^/# /'
    fi
}

test_count()
{
    mkdir -p "$work/src/base" "$work/src/web" "$work/sql"
    cat >"$work/src/base/a.c" <<'END'
/*
 * int not_code;
 */
int a; /* begins here
        * and ends here */
const char *url = "http://host/*"; // not a comment before this
char quote = '"', other = '/';

/* b */ int b;
END
    printf '<!-- a\n b -->\n<p>\n\n</p>\n' >"$work/src/web/a.html"
    # shellcheck disable=SC2016 # JavaScript's
    printf 'const a = `//`;\n// b\n/* c\n */\n' >"$work/src/web/a.mjs"
    printf -- '-- a\nselect 1 -- b\n' >"$work/sql/1.sql"
    is "code lines are neither blank nor comment" \
        "$(perl tests/count.pl "$work" src/base/a.c src/web/a.html src/web/a.mjs sql/1.sql |
            awk 'NR > 1 { print $1, $2, $3, $4 }' | tr '\n' ';')" \
        "base 4 0 4;web 0 3 3;sql 0 1 1;sum 4 4 8;"
}

# The programs of this machine without those of Debian's packages. ccache does not find a compiler
# through links.
path_without_debian()
{
    local folder
    mkdir -p "$work/bin"
    IFS=: read -ra folders <<<"$PATH"
    for folder in "${folders[@]}"; do
        [[ $folder == *ccache* ]] || ln -s "$folder"/* "$work/bin/" 2>/dev/null
    done
    rm -f "$work/bin/"dpkg* "$work/bin/"apt*
}

# $1: library, $2: name for pkg-config, $3: version.
write_pc()
{
    printf 'libdir=%s/lib\nincludedir=%s/include\nName: %s\nDescription: %s\nVersion: %s\n' \
        "$work/prefix" "$work/prefix" "$1" "$1" "$3" >"$work/prefix/pkgconfig/$2.pc"
}

# With SYSTEM_DEPS=skip, the libraries that pkg-config knows are enough.
test_without_dpkg()
{
    local deps
    deps=$(cd "${DEPS_CACHE:-build/deps}" && pwd)
    mkdir -p "$work/prefix/pkgconfig"
    cp -R "$deps/include" "$deps/lib" "$work/prefix/"
    write_pc libuv libuv 1.44.2
    write_pc llhttp libllhttp 9.4.0
    write_pc mbedtls mbedtls 3.6.7
    write_pc yyjson yyjson 0.10.0
    path_without_debian
    is "without dpkg, libraries come from pkg-config" \
        "$(PATH="$work/bin" SYSTEM_DEPS=skip DEPS_CACHE="$work/deps" \
            PKG_CONFIG_PATH="$work/prefix/pkgconfig" deps/fetch.sh 2>&1 | grep -v 'looking for')" \
        "$(printf "deps: %s (the system's)\n" "libuv 1.44.2" "llhttp 9.4.0" "mbedtls 3.6.7" \
            "yyjson 0.10.0")"
    is "without dpkg, missing libraries are named" \
        "$(PATH="$work/bin" SYSTEM_DEPS=check deps/system.sh run 2>&1 | cut -d ';' -f 1)" \
        "deps: there is no dpkg"
}

test_find_citus()
{
    local bin=$work/pgsql/bin
    mkdir -p "$bin" "$work/pgsql/share/extension"
    touch "$bin"/{initdb,postgres,psql}
    chmod +x "$bin"/*
    is "without Citus, the message says what to install" "$(SLUICE_CITUS_BIN=$bin tests/citus/find.sh 2>&1; echo $?)" \
        "no PostgreSQL in $bin has Citus: install the extension (package postgresql-15-citus-13.2 of Citus Data), or name another folder of programs by SLUICE_CITUS_BIN
1"
    touch "$work/pgsql/share/extension/citus.control"
    is "a PostgreSQL with Citus is found" "$(SLUICE_CITUS_BIN=$bin tests/citus/find.sh)" "$bin"
}

# $1: name of a program that fails the first time, $2: STRICT. Prints the run's last lines and its
# status.
run_flaky()
{
    rm -f "$work/ran"
    echo "integration $1 $work/flaky" >"$work/list"
    TEST_AGAIN=2 STRICT=$2 tests/run.sh "$work/contain" "$work/list" >"$work/said" 2>&1
    set -- $?
    sed -n '/^passed at/p;$p' "$work/said" | tr '\n' ';'
    echo "$1"
}

test_second_try()
{
    # shellcheck disable=SC2016 # the script's own
    printf '#!/bin/sh\nshift\nexec "$@"\n' >"$work/contain"
    cat >"$work/flaky" <<END
#!/bin/sh
if [ -e "$work/ran" ]; then echo "ok 1 - a b"; else echo "not ok 1 - a b"; fi
printf '# why\nok 2 - c\n1..2\n'
touch "$work/ran"
END
    chmod +x "$work/contain" "$work/flaky"
    is "a test that passes at the second try is named" "$(run_flaky integration/none "")" \
        "passed at the second try: integration/none: a b;2 passed, 0 failed, 0 skipped;0"
    is "and counts as a failure with STRICT=1" "$(run_flaky integration/none 1)" \
        "passed at the second try: integration/none: a b;2 passed, 0 failed, 0 skipped;1"
    is "a test that counts requests is not run again" "$(run_flaky e2e/idempotency.test.mjs "")" \
        "1 passed, 1 failed, 0 skipped;1"
}

# The output of Node, with suites and nested tests, and of a cmocka program that died before its
# plan was complete.
test_report()
{
    cat >"$work/node" <<'END'
TAP version 13
# Subtest: a suite
    # Subtest: first
    ok 1 - first
      ---
      duration_ms: 1
      type: 'test'
      ...
    # Subtest: later # SKIP
    ok 2 - later # SKIP
      ---
      duration_ms: 1
      type: 'test'
      ...
    1..2
ok 1 - a suite
  ---
  duration_ms: 1
  type: 'suite'
  ...
# Subtest: outer
    # Subtest: inner
    not ok 1 - inner
      ---
      duration_ms: 1
      type: 'test'
      location: 'a.mjs:3:1'
      failureType: 'testCodeFailure'
      error: |-
        Expected values
        1 !== 2
      code: 'ERR_ASSERTION'
      stack: |-
        TestContext.<anonymous> (file:///a.mjs:4:2)
      ...
    1..1
not ok 2 - outer
  ---
  duration_ms: 1
  type: 'test'
  failureType: 'subtestsFailed'
  error: '1 subtest failed'
  ...
1..2
# tests 4
# figure: 7 apples
# cpu 1.5
END
    is "suites do not count as tests, and the inner one of two nested tests failed" \
        "$(tests/report.pl x 1 2.0 "$work/node" | sed -n 1,2p && cat "$work/node.counts" "$work/node.failures" "$work/node.names")" \
        "$(printf '%s\n' 'FAIL  x                                               1 passed, 2 failed, 1 skipped  2.0 s, 1.5 s of CPU' '      7 apples' '1 2 1' \
            'failed: x (exit status 1)' '  not ok 1 - inner' "    location: 'a.mjs:3:1'" '    error: |-' '      Expected values' '      1 !== 2' \
            '    at TestContext.<anonymous> (file:///a.mjs:4:2)' inner)"
    printf '1..3\nok 1 - a\n==1==ERROR: AddressSanitizer: heap\n    #0 f\n' >"$work/died"
    is "a program that did not finish has failed" \
        "$(tests/report.pl y 134 0.1 "$work/died" >/dev/null && cat "$work/died.counts" "$work/died.failures")" \
        "$(printf '%s\n' '1 2 0' 'failed: y (exit status 134)' '    ==1==ERROR: AddressSanitizer: heap' '        #0 f')"
    printf "not ok 1 - a\n  ---\n  error: |-\n    ==2==ERROR: LeakSanitizer: leaks\n        #0 server\n  ...\n==1==ERROR: LeakSanitizer: leaks\n    #0 test\nSUMMARY: 1 byte\n" >"$work/leaks"
    is "the leaks of a server are shown, not those of the failed test" \
        "$(tests/report.pl z 1 0.1 "$work/leaks" | grep -o '#0 .*')" '#0 server'
}

test_count
test_without_dpkg
test_find_citus
test_second_try
test_report
echo "1..$number"
exit $failed
