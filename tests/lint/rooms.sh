#!/usr/bin/env bash
# The room checker: includes only go up the list of src/ROOMS, third-party headers are used only
# where they may be, and sources come in pairs.
#
# For every file of src/ and bench/:
#   - a quoted include is written "room/file.h", exists, and its room is the same or one that this
#     room sees;
#   - some file includes each room that src/ROOMS lists as seen;
#   - a third-party header that src/ROOMS names is included only by the rooms that it is named for;
# and in src/:
#   - every folder is a listed room, and the table of src/README.md lists it with the rooms that it sees;
#   - a source includes the header of the same name, directly or through a header of its room;
#   - some source of src/, bench/ or tests/ includes every header;
#   - an endpoint or a page that a header declares is used outside of the source that defines it: otherwise its line in a table is missing;
#   - a function that a header declares is used by a program, and a statement is in its list (unused.pl).
set -eu
# shellcheck source=files.sh
. "$(dirname "$0")/files.sh"

rooms=$(awk -f tests/lint/rooms.awk src/ROOMS)

check_includes()
{
    # shellcheck disable=SC2046 # our paths contain no spaces
    awk -v rooms="$rooms" '
        BEGIN {
            count = split(rooms, line, "\n")
            for (i = 1; i <= count; i++) {
                split(line[i], field, ":")
                room = field[1]
                known[room] = 1
                may[room, room] = 1
                parts = split(field[3], part, ",")
                for (j = 1; j <= parts; j++)
                    may[room, part[j]] = 1
                parts = split(field[4], part, ",")
                for (j = 1; j <= parts; j++) {
                    wall[part[j]] = wall[part[j]] " " room
                    through[room, part[j]] = 1
                }
            }
        }
        FNR == 1 {
            split(FILENAME, path, "/")
            own = path[1] == "src" ? path[2] : path[1]
            if (!(own in known) && !reported[own]++)
                print FILENAME ": " own " is not a room of src/ROOMS"
        }
        /^[ \t]*#[ \t]*include[ \t]*"/ {
            name = $0
            sub(/^[^"]*"/, "", name)
            sub(/".*/, "", name)
            where = FILENAME ":" FNR ": "
            if (name !~ /\//) {
                print where "write \"room/" name "\""
                next
            }
            room = name
            sub(/\/.*/, "", room)
            # bench names its files from the root of bench/ or of src/
            if (own == "bench" && !(room in known))
                next
            if (!(room in known))
                print where room " is not a room of src/ROOMS"
            else if (!((own, room) in may))
                print where own " may not see " room
            else
                used[own, room] = 1
            next
        }
        /^[ \t]*#[ \t]*include[ \t]*</ {
            name = $0
            sub(/^[^<]*</, "", name)
            sub(/>.*/, "", name)
            folder = name
            sub(/\/.*/, "/", folder)
            key = name in wall ? name : folder in wall ? folder : ""
            if (key != "" && !((own, key) in through))
                print FILENAME ":" FNR ": <" name "> is for" wall[key] " only"
        }
        END {
            for (pair in may) {
                split(pair, part, SUBSEP)
                if (part[1] != part[2] && !(pair in used))
                    print "src/ROOMS: " part[1] " sees " part[2] ", and includes nothing of it"
            }
        }' $(c_files src bench) /dev/null
}

# The table of src/README.md: rooms in order, with the rooms that they see in the third cell.
check_table()
{
    diff <(awk -F'[:,]' '$1 != "bench" {
            split($0, field, ":")
            gsub(/,/, " ", field[3])
            print field[1] ": " field[3]
        }' <<<"$rooms") <(awk -F'|' '
        /^## / { is_here = $0 == "## Rooms" }
        is_here && $2 ~ /^ `/ {
            gsub(/[` ]/, "", $2)
            gsub(/^ +| +$/, "", $4)
            print $2 ": " $4
        }' src/README.md) |
        sed -n 's|^< \(.*\)|src/README.md: the table of rooms has no row of \1|p
                s|^> \(.*\)|src/README.md: src/ROOMS does not say \1|p' || true
}

# $1: source, $2: header, which it may also get through another header of its room.
includes()
{
    local through
    ! grep -qF "#include \"$2\"" "$1" || return 0
    # shellcheck disable=SC2013 # include names are words
    for through in $(sed -n "s|^#include \"\(${2%/*}/[^\"]*\)\".*|src/\1|p" "$1"); do
        ! grep -qsF "#include \"$2\"" "$through" || return 0
    done
    return 1
}

check_pairs()
{
    local source header
    for source in $(c_files src | grep '\.c$' || true); do
        header=${source%.c}.h
        [ ! -e "$header" ] || includes "$source" "${header#src/}" ||
            echo "$source: does not include its own \"${header#src/}\""
    done
    for header in $(c_files src | grep '\.h$' || true); do
        grep -rqF "\"${header#src/}\"" --include='*.c' --include='*.h' --include='embed.sh' \
            src bench tests deps 2>/dev/null || echo "$header: is not included anywhere"
    done
}

check_tables()
{
    # shellcheck disable=SC2046 # our paths contain no spaces
    perl -0777 -ne '
        s{/\*.*?\*/}{}gs;
        if ($ARGV =~ /\.c$/) {
            my %here = map { $_ => 1 } /\b[a-z]\w+/g;
            $users{$_}++ for keys %here;
        } elsif ($ARGV =~ m{^src/(api|web)/}) {
            for my $list (/^extern const struct \w+ ([^;]*);/gm) {
                $header{$_} = $ARGV for $list =~ /(\w+)/g;
            }
        }
        END {
            for (sort keys %header) {
                print "$header{$_}: $_ is used nowhere\n" if ($users{$_} // 0) < 2;
            }
        }' $(c_files src)
}

check_used()
{
    # shellcheck disable=SC2046 # our paths contain no spaces
    perl tests/lint/unused.pl $(c_files src bench tests)
}

verdict "rooms: includes, walls, pairs, tables and use" "$(
    check_includes
    check_table
    check_pairs
    check_tables
    check_used
)"
