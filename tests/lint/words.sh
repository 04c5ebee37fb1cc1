#!/usr/bin/env bash
# Names and comments keep to the glossary of contrib/CONTRIBUTING.md: words.txt has what is refused.
# A function's name is its own: not that of functions in other files of src.
# Prints each room's share of comment lines in .c files, which has a minimum, and its asserts.
set -eu
# shellcheck source=files.sh
. "$(dirname "$0")/files.sh"

# shellcheck disable=SC2046 # paths of ours hold no spaces
found=$(perl tests/lint/words.pl tests/lint/words.txt $(c_files src bench))
printf '%s\n' "$found" | grep '^# room' || true
verdict "words of names and comments" "$(printf '%s\n' "$found" | grep -v '^# room' || true)"
