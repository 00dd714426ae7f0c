#!/bin/sh
# The kit has to fail: run the toy driver with a fault, and look for the words of the kit that name it.
#
#     catches.sh PROGRAM FAULT GROUP TEST WORDS...
#
# With HANG_MS in the environment the test has to hang: the kit has to end the run by itself, with 1.
set -eu

program=$1 group=$3 test=$4
FAULT=$2
export FAULT
unset LOCKER_TEST_RERUNS # a rerun of a driver with a fault is no test's
shift 4
fail() {
    echo "catches.sh: $*" >&2
    exit 1
}

code=0
output=$("$program" "$group" "$test" 2>&1) || code=$?
echo "$output"
[ "$code" -ne 0 ] || fail "the kit passed a driver with the fault $FAULT"
if [ -n "${HANG_MS-}" ]; then
    [ "$code" -eq 1 ] || fail "the run of a test that hangs ended with $code"
    set -- "$@" "^conformance: $group/$test hangs: "
fi
for words in "$@"; do
    echo "$output" | grep -q -- "$words" || fail "the kit failed the fault $FAULT, but not with '$words'"
done
