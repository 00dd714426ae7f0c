#!/bin/sh
# The watchdog must not take a busy machine for a test that hangs: run a group beside four busy loops.
#
#     busy.sh PROGRAM GROUP
set -eu

loops=
trap 'kill $loops' EXIT
for _ in 1 2 3 4; do
    while :; do :; done &
    loops="$loops $!"
done
"$1" "$2"
