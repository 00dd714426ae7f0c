#!/bin/sh
# Where networks can't be cut, the group `cut` is skipped with a line that says so, and fails where skips are refused.
# skips.sh PROGRAM
set -eu

lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
if [ "$(id -u)" = 0 ]; then
    cut() { setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$1" cut >/dev/null 2>&1; }
else # the user namespace that would be made is forbidden inside one that is made here
    cut() { unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && setpriv \
        --bounding-set=-sys_admin --inh-caps=-sys_admin "$1" cut' - "$1" >/dev/null 2>&1; }
fi

code=0
LOCKER_TEST_SKIPS='' LOCKER_TEST_SKIPPED=$lines cut "$1" || code=$?
[ "$code" = 77 ] || { echo "skipping ended with $code instead of 77" >&2; exit 1; }
grep -q 'networks that are cut: ' "$lines" || { echo "the skip was not told" >&2; exit 1; }
code=0
LOCKER_TEST_SKIPS=refuse LOCKER_TEST_SKIPPED=$lines cut "$1" || code=$?
case $code in
0 | 77)
    echo "a refused skip ended with $code" >&2
    exit 1
    ;;
esac
