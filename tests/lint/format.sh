#!/usr/bin/env bash
# Checks that C files match .clang-format; with --apply, formats them.
#
# The style is that of version 14. The version in Debian's next release formats macros differently
# and everything else alike, so macros are not checked with it. With any other version, the check is
# skipped and says so.
set -eu
# shellcheck source=files.sh
. "$(dirname "$0")/files.sh"

tool=
version=
for candidate in clang-format-14 clang-format; do
    version=$("$candidate" --version 2>/dev/null | sed -n 's/.*version \(14\|19\)\..*/\1/p')
    if [ -n "$version" ]; then
        tool=$candidate
        break
    fi
done
if [ -z "$tool" ]; then
    echo "ok 1 - format # SKIP clang-format 14 or 19 is not installed"
    echo "1..1"
    exit 0
fi

# LINT_FILES: check only these.
format_files()
{
    # shellcheck disable=SC2086 # a list of words
    c_files src bench tests | { [ -z "${LINT_FILES:-}" ] && cat ||
        grep -Fx -f <(printf '%s\n' $LINT_FILES) || true; }
}

if [ "${1:-}" = --apply ]; then
    [ "$version" = 14 ] || { echo "format: applying needs clang-format 14" >&2; exit 1; }
    c_files src bench tests | xargs -r "$tool" -i
    exit 0
fi
# Prints the messages from stdin that are not about a line of a macro.
outside_macros()
{
    perl -ne 'next if !/^([^:]+):(\d+):/;
        if (!$macros{$1}++) {
            my ($path, $is_inside) = ($1, 0);
            open(my $in, "<", $path) or die "$path: $!\n";
            while (my $line = <$in>) {
                $is_inside ||= $line =~ /^\s*#\s*define\b/;
                $is_macro{"$path:$."} = 1 if $is_inside;
                $is_inside &&= $line =~ /\\$/;
            }
        }
        print if !$is_macro{"$1:$2"}'
}

found=$(format_files | xargs -r "$tool" --dry-run -Werror 2>&1 | grep -E 'error:' || true)
[ "$version" = 14 ] || found=$(outside_macros <<<"$found")
verdict "format" "$found"
