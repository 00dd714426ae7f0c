#!/bin/sh
# count.sh: what counter.c does, in shell: increment the number in a file, each time under a lock.
#
#     count.sh FILE TIMES KEY
#
# Several of them may run at once, together with any number of counter. Which service keeps the lock is no
# matter of this script: LOCKER_URI says it, or LOCKER_CONFIG with LOCKER_PROFILE.
set -eu

file=$1
times=$2
key=$3

while [ "$times" -gt 0 ]; do
    # shellcheck disable=SC2016 # the inner shell expands it, with the lock held
    locker run "$key" -- sh -c 'n=$(cat "$1"); echo $((n + 1)) >"$1"' increment "$file"
    times=$((times - 1))
done
