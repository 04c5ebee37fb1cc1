# shellcheck shell=bash
#
# The rows of the table "What to change for" of contrib/CONTRIBUTING.md; sourced. Run from the root.
# A row's first cell links to its patch. Text in backticks is a path, or a pattern whose * is any
# part of a name.

page=contrib/CONTRIBUTING.md

# Prints "PATCH|FILES|TESTS" for each row. The parts of FILES and TESTS are separated by spaces.
rows()
{
    awk -F'|' '
        function ticked(cell,    out) {
            out = ""
            while (match(cell, /`[^`]*`/)) {
                out = out " " substr(cell, RSTART + 1, RLENGTH - 2)
                cell = substr(cell, RSTART + RLENGTH)
            }
            return substr(out, 2)
        }
        /^## / { is_here = $0 == "## What to change for" }
        is_here && /^\| / && $2 !~ /^ (to add|---) / {
            patch = ""
            if (match($2, /\(\.\.\/[^)]*\)/))
                patch = substr($2, RSTART + 4, RLENGTH - 5)
            print patch "|" ticked($3) "|" ticked($4)
        }' "$page"
}

# The files of a patch.
files_of()
{
    git apply --numstat "$1" | cut -f 3
}

# Whether the path $1 fits the pattern $2.
fits()
{
    local text=${2//./\\.}
    [[ $1 =~ ^${text//\*/[^/]*}$ ]]
}

# Prints the files that the patch $1 touches beyond the patterns $2, and the patterns that match no
# touched file. Prints nothing if both agree.
differences()
{
    local patch=$1 file pattern found
    local -a patterns touched
    read -ra patterns <<<"$2"
    mapfile -t touched < <(files_of "$patch")
    for file in "${touched[@]}"; do
        found=
        for pattern in "${patterns[@]}"; do
            ! fits "$file" "$pattern" || found=1
        done
        [ -n "$found" ] || echo "$patch: touches $file, which its row in $page does not name"
    done
    for pattern in "${patterns[@]}"; do
        found=
        for file in "${touched[@]}"; do
            ! fits "$file" "$pattern" || found=1
        done
        [ -n "$found" ] || echo "$patch: touches nothing of $pattern, which its row in $page names"
    done
}
