#!/usr/bin/env bash
# incbin.sh TABLE FILE...: prints assembly that embeds the files, as an array TABLE of
# { const char *name, *begin, *end } ended by a null name. Names are relative to the tree; of what
# is built, to the folder obj.
set -eu
table=$1; shift
echo '.section .note.GNU-stack,"",@progbits'
echo '.section .rodata'
n=0
for f in "$@"; do
  printf '.Lname%d: .asciz "%s"\n.Lbegin%d: .incbin "%s"\n.Lend%d: .byte 0\n' $n "${f#*/obj/}" $n "$f" $n
  n=$((n + 1))
done
printf '.section .data.rel.ro,"aw"\n.globl %s\n.balign 8\n%s:\n' "$table" "$table"
for ((i = 0; i < n; i++)); do printf '.quad .Lname%d, .Lbegin%d, .Lend%d\n' $i $i $i; done
echo '.quad 0, 0, 0'
