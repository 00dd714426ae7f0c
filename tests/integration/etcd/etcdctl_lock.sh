#!/bin/sh
# etcdctl_lock.sh ENDPOINT NAME FILE COUNTER TIMES: takes the lock so often by `etcdctl lock`, and under it adds a line with its
# key's create revision to FILE, and one to the number in COUNTER. Says "ok".
set -eu

export ENDPOINT="$1" FILE="$3" COUNTER="$4"
name=$2 times=$5
# shellcheck disable=SC2016 # the shell under the lock expands it
work='
revision=$(etcdctl --endpoints "$ENDPOINT" get "$ETCD_LOCK_KEY" -w fields | sed -n "s/^\"CreateRevision\" : //p")
echo "$revision theirs" >>"$FILE"
number=$(cat "$COUNTER")
echo $((number + 1)) >"$COUNTER"
'
while [ "$times" -gt 0 ]; do
    etcdctl --endpoints "$ENDPOINT" lock -- "$name" sh -ec "$work"
    times=$((times - 1))
done
echo ok
