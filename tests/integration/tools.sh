#!/usr/bin/env bash
# What contributors' tools say: the counter of code lines.
set -u
cd "$(dirname "$0")/../.." || exit 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0

# $1: what, $2: found, $3: wanted.
is()
{
    number=$((number + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $number - $1"
    else
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

test_count
echo "1..$number"
