# Makes C from words.txt and idioms.txt, which describe their lines: the tables of reading.h. The
# compiler refuses a kind that the header does not have, and names it.
#
#   awk -f src/search/words.awk src/search/words.txt src/search/idioms.txt >words.c

function fail(why)
{
    printf "%s:%d: %s: %s\n", FILENAME, FNR, why, line >"/dev/stderr"
    exit failed = 1
}

# "says opens" as "0 | WORD_SAYS | WORD_OPENS"
function flags(kinds, prefix)
{
    gsub(/ +/, " | " prefix, kinds)
    return "0" toupper(kinds)
}

# Makes a row of the lines read so far. It is called when the next line does not continue them.
function finish(    at, kinds, first, left, right)
{
    if (line == "")
        return
    if (line !~ /^[a-z ]+: [a-z]['a-z0-9 *\/]*( >( [a-z, ]+)?)?$/)
        fail("not KIND...: WORDS > WORDS")
    at = index(line, ": ")
    left = substr(line, at + 2)
    kinds = substr(line, 1, at - 1)
    first = kinds
    sub(/ .*/, "", first)
    right = "NULL"
    if ((at = index(left, " >")) > 0) {
        right = "\"" substr(left, at + 3) "\""
        left = substr(left, 1, at - 1)
    }
    left = "    {\"" left "\", "
    if (first == "same" || first == "near")
        synonyms = synonyms left right ", " toupper(first) " | " flags(substr(kinds, 5), "AS_") "},\n"
    else if (first == "implied")
        implied = implied left right "},\n"
    else if (first == "idiom")
        idioms = idioms left right ", " flags(substr(kinds, 6), "WORD_") "},\n"
    else
        classes = classes left flags(" " kinds, "WORD_") "},\n"
    line = ""
}

function table(struct, name, rows)
{
    printf "\nconst struct search_%s search_%s[] = {\n%s};\n", struct, name, rows
    printf "const size_t search_%s_count = ARRAY_LEN(search_%s);\n", name, name
}

/^ / {
    sub(/^ +/, " ")
    line = line $0
    next
}
{
    finish()
    line = /^#/ ? "" : $0
}
END {
    if (failed)
        exit 1
    finish()
    print "#include \"search/reading.h\""
    table("class", "classes", classes)
    table("synonyms", "synonyms", synonyms)
    table("implied", "implied", implied)
    table("idiom", "idioms", idioms)
}
