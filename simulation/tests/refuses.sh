#!/bin/sh
# refuses.sh PROGRAM "STATUS ARGUMENT..."...: each of these ends with its status, after words on the standard error alone.
set -u
program=$1
shift
said=$(mktemp) || exit 71
trap 'rm -f "$said"' EXIT
for case; do
    # shellcheck disable=SC2086 # arguments
    words=$("$program" ${case#* } 2>"$said")
    status=$?
    if [ "$status" != "${case%% *}" ] || [ -n "$words" ] || ! [ -s "$said" ]; then
        echo "${case#* } ended with $status: $words $(cat "$said")" >&2
        exit 1
    fi
done
