#!/usr/bin/env bash
# Checks that C files are as .clang-format wants them; with --apply, makes them so.
#
# The style is that of version 14: others break lines differently, so where only another version is
# installed the check is skipped and says so.
set -eu
# shellcheck source=files.sh
. "$(dirname "$0")/files.sh"

tool=
for candidate in clang-format-14 clang-format; do
    if "$candidate" --version 2>/dev/null | grep -q 'version 14\.'; then
        tool=$candidate
        break
    fi
done
if [ -z "$tool" ]; then
    echo "ok 1 - format # SKIP clang-format 14 is not installed"
    echo "1..1"
    exit 0
fi

# LINT_FILES: of these alone.
format_files()
{
    # shellcheck disable=SC2086 # a list of words
    c_files src bench tests | { [ -z "${LINT_FILES:-}" ] && cat ||
        grep -Fx -f <(printf '%s\n' $LINT_FILES) || true; }
}

if [ "${1:-}" = --apply ]; then
    c_files src bench tests | xargs -r "$tool" -i
    exit 0
fi
verdict "format" "$(format_files | xargs -r "$tool" --dry-run -Werror 2>&1 |
    grep -E 'error:' || true)"
