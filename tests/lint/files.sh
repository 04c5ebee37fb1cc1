# shellcheck shell=bash
#
# The files that a check reads; sourced by the checks of this folder. Prints paths from the root.

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

# Our C sources and headers in the named folders.
c_files()
{
    find "$@" -type d -name node_modules -prune -o -type f \( -name '*.c' -o -name '*.h' \) -print \
        2>/dev/null | sort
}

# All files that are, or are about to be, in a commit. A tree without git is listed completely.
all_files()
{
    if git rev-parse --git-dir >/dev/null 2>&1; then
        git ls-files --cached --others --exclude-standard | sort | while read -r file; do
            [ ! -f "$file" ] || echo "$file"
        done
    else
        find . \( -name build -o -name node_modules -o -name .git -o -name .sluice \) -prune -o \
            -type f -print | sed 's|^\./||' | sort
    fi
}

# $1: name of the check, $2: its findings. Prints the result and ends the check.
verdict()
{
    if [ -n "$2" ]; then
        printf '%s\n' "$2"
        printf 'not ok 1 - %s\n1..1\n' "$1"
        exit 1
    fi
    printf 'ok 1 - %s\n1..1\n' "$1"
}
