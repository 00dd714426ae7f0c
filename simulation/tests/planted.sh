#!/bin/sh
# planted.sh PROGRAM PLANT...: the comparison finds each planted difference, and says how to see it again.
set -u
program=$1
shift
for plant; do
    if "$program" --sequences 300 --plant "$plant" | grep -q -- "run it again: .* --seed [0-9]* --verbose --plant $plant"; then
        echo "$plant: found"
    else
        echo "$plant: not found" >&2
        exit 1
    fi
done
