#!/usr/bin/env bash
# Names, and all text for people, follow the glossary of contrib/CONTRIBUTING.md. words.txt lists
# what is refused. A function's name is unique among the files of src. Prints each room's share of
# comment lines in .c files, which has a minimum, and its asserts.
set -eu
# shellcheck source=files.sh
. "$(dirname "$0")/files.sh"

lint=$PWD/tests/lint

# A text of each class, with one fault and one exception: words.pl must find only the fault.
# words.pl itself checks that each phrase matches its example.
check_itself()
{
    local tree file found
    tree=$(mktemp -d)
    mkdir -p "$tree"/{src/web/pages,contrib,tests}
    printf '%s\n' '/* A turn of' ' * the wheel. */' '// a turn of the wheel; words: ok' >"$tree/src/a.h"
    printf '%s\n' 'f("A turn of "' '  "the wheel.");' 'f("a turn of the wheel"); /* words: ok */' >"$tree/src/b.h"
    printf '%s\n' '<p title="a turn of the wheel">' '<!-- a turn of the wheel; words: ok -->' >"$tree/src/web/pages/a.html"
    printf '%s\n' '{"description": "a turn of the wheel",' '"tags": ["a turn of the wheel"]}' >"$tree/contrib/a.json"
    printf '%s\n' '# A turn of the wheel' '<!-- words: ok --> a turn of the wheel' >"$tree/README.md"
    printf '%s\n' '# a turn of the wheel' '# a turn of the wheel; words: ok' >"$tree/Makefile"
    printf '%s\n' "test('a turn of the wheel', () => {" '// a turn of the wheel; words: ok' >"$tree/tests/a.mjs"
    cd "$tree"
    for file in $(find . -type f | sed 's|^\./||'); do
        found=$(perl "$lint/words.pl" "$lint/words.txt" "$file" | grep -ci 'says "a turn of the wheel"' || true)
        [ "$found" = 1 ] || echo "words.pl finds $found faults in $file of check_itself instead of 1"
    done
    rm -r "$tree"
}

found=$(
    # shellcheck disable=SC2046 # our paths contain no spaces
    perl tests/lint/words.pl tests/lint/words.txt $(all_files) 2>&1 || echo "words.pl failed"
    check_itself
)
printf '%s\n' "$found" | grep '^# room' || true
verdict "words of names and text" "$(printf '%s\n' "$found" | grep -v '^# room' || true)"
