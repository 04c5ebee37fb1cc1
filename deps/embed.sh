#!/usr/bin/env bash
# Writes the C file that compiles a set of files into the program.
#
#   deps/embed.sh NAME [FILE...] >embed_NAME.c
#
# It defines embed_NAME[] and embed_NAME_count of base/embed.h: a file's base name, bytes and size.
# The bytes come in through the assembler (.incbin), so the size of a file costs nothing to compile;
# a zero byte follows each, so that text may be read as a string. Paths are relative to the root.
set -eu

name=$1
shift

echo '#include "base/embed.h"'
i=0
for file in "$@"; do
    cat <<EOF
__asm__(".section .rodata\n.balign 16\nembed_${name}_$i:\n.incbin \"$file\"\n.byte 0\n.previous\n");
extern const unsigned char embed_${name}_${i}[];
EOF
    i=$((i + 1))
done
# A last entry of zeros keeps the table legal when there is no file.
echo "const struct embed_file embed_${name}[] = {"
i=0
for file in "$@"; do
    echo "    {\"${file##*/}\", embed_${name}_$i, $(wc -c <"$file")},"
    i=$((i + 1))
done
echo '    {0, 0, 0},'
echo '};'
echo "const size_t embed_${name}_count = $i;"
