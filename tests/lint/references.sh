#!/usr/bin/env bash
# Everything that a comment or a document names exists:
#   - a .md file: from the root or in the file's folder; "Section" after it is one of its headings,
#     or the first cell of a row of its tables;
#   - src/..., tests/... and so on, and a file of a room: exist (`*` and <...> stand for anything);
#   - the name of a .c, .h or .mjs file alone: one of our files has it.
set -eu
# shellcheck source=files.sh
. "$(dirname "$0")/files.sh"

# A migration is never changed once it has been applied, so it may name what existed then.
found=$(all_files | grep -v '^sql/[0-9]' | perl tests/lint/references.pl)
verdict "references of comments and documents" "$found"
