# Reads src/ROOMS and prints one line per room, in order:
#
#   room:links:sees:headers
#
# links: the room and all that it needs, directly or not, highest first (the order for the linker);
# sees: what its files may include; headers: the third-party headers that it may include. Each is a
# list with commas. Exits 1 when a room sees one that is not above it.
function trim(text)
{
    gsub(/^[ \t]+|[ \t]+$/, "", text)
    return text
}

function list(text)
{
    text = trim(text)
    gsub(/[ \t]+/, ",", text)
    return text
}

BEGIN { FS = "|" }

/^[a-z]/ {
    room = trim($1)
    seen = trim($2)
    parts = split(seen, part, " ")
    for (i = 1; i <= parts; i++) {
        if (!(part[i] in rank)) {
            print "src/ROOMS: " room " sees " part[i] ", which is not above it" > "/dev/stderr"
            exit 1
        }
        # Rooms above were read earlier, so their lists are complete.
        needs[room, part[i]] = 1
        for (j = 1; j <= count; j++)
            if ((part[i], order[j]) in needs)
                needs[room, order[j]] = 1
    }
    order[++count] = room
    rank[room] = count
    sees[room] = list(seen)
    headers[room] = list($3)
}

END {
    for (i = 1; i <= count; i++) {
        links = order[i]
        for (j = count; j > 0; j--)
            if ((order[i], order[j]) in needs)
                links = links "," order[j]
        print order[i] ":" links ":" sees[order[i]] ":" headers[order[i]]
    }
}
