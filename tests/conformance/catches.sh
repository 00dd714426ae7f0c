#!/bin/sh
# The kit has to fail: run the toy driver with a fault, and look for the words that tell of it.
#
#     catches.sh PROGRAM FAULT GROUP TEST WORDS
set -eu

program=$1
words=$5
FAULT=$2
export FAULT
code=0
output=$("$program" "$3" "$4" 2>&1) || code=$?
echo "$output"
if [ "$code" -eq 0 ]; then
    echo "catches.sh: the kit passed a driver with the fault $FAULT" >&2
    exit 1
fi
if ! echo "$output" | grep -q -- "$words"; then
    echo "catches.sh: the kit failed the fault $FAULT, but not with '$words'" >&2
    exit 1
fi
