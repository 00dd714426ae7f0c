#!/bin/sh
# add.sh KIND DIRECTORY: what is done under the lock by who takes it for one command: a line "REVISION NUMBER KIND" in the file
# grants, with the create revision of the lock's key, and one more in the file counter. An unguarded read and write.
set -eu
revision=${LOCKER_TOKEN-}
[ "$revision" ] || revision=$(timeout 10 etcdctl get "$ETCD_LOCK_KEY" -w fields | sed -n 's/^"CreateRevision" : //p')
read -r number <"$2/counter"
echo "$revision $number $1" >>"$2/grants"
printf '%6d\n' $((number + 1)) 1<>"$2/counter"
