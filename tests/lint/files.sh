# shellcheck shell=bash
# Which files a check looks at; sourced by the checks of this folder. Prints paths from the root.

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

# C sources and headers of ours, in the folders named.
c_files()
{
    find "$@" -type d -name node_modules -prune -o -type f \( -name '*.c' -o -name '*.h' \) -print \
        2>/dev/null | sort
}

# All that is, or is about to be, in a commit; a tree without git is taken whole.
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

# $1: name of the check, $2: what was found. Prints it and ends the check.
verdict()
{
    if [ -n "$2" ]; then
        printf '%s\n' "$2"
        printf 'not ok 1 - %s\n1..1\n' "$1"
        exit 1
    fi
    printf 'ok 1 - %s\n1..1\n' "$1"
}
