#!/bin/sh
# skipped.sh WHAT WHY: a test that this machine can't build is told as skipped, and fails where skips are refused.
set -eu
if [ "${LOCKER_TEST_SKIPS:-}" = refuse ]; then
    echo "$1: $2; skips are refused (LOCKER_TEST_SKIPS)" >&2
    exit 1
fi
echo "SKIPPED: $1: $2"
[ -z "${LOCKER_TEST_SKIPPED:-}" ] || echo "$1: $2" >>"$LOCKER_TEST_SKIPPED"
exit 77
