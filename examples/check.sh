#!/bin/sh
# check.sh: run one example on the file driver in a directory of its own, and look at what it prints.
#
#     check.sh EXAMPLE PROGRAM [LOCKER]
#
# PROGRAM is what was built from EXAMPLE.c, or cron.sh; LOCKER the locker command, for those that need it.
set -eu

example=$1
program=$2
locker=${3:-}
here=$(dirname "$0")
dir=$(mktemp -d)
background=
trap 'test -z "$background" || kill "$background" 2>/dev/null || :; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
unset LOCKER_CONFIG LOCKER_PROFILE LOCKER_HELD_KEYS
LOCKER_URI=file://$dir/locks
export LOCKER_URI

fail() {
    echo "check.sh: $example: $1" >&2
    cat "$dir/out" >&2 || :
    exit 1
}

# The output has a line like each of these patterns, in any order.
expect() {
    cat "$dir/out"
    for pattern in "$@"; do
        grep -q -- "$pattern" "$dir/out" || fail "prints no line like '$pattern'"
    done
}

run() {
    "$@" >"$dir/out" 2>&1 || fail "exits with $?"
}

case $example in
    scope)
        run "$program"
        expect '^orders/42: paid 100, alone$' '^orders/42: nothing to pay$' '^orders/42 is free again$'
        ;;
    lost)
        # A busy machine may not let it work before the lock is lost; it does so once in a while.
        for _ in 1 2 3 4 5; do
            run "$program"
            if grep -q '^working' "$dir/out"; then break; fi
        done
        expect '^working, state held' "^callback: 'examples/lost' is lost$" '^loop: state lost' '^unlock: .*lost'
        ;;
    fencing)
        run "$program"
        expect "^the quick one's report *accepted$" "^the slow one's report *refused" \
            "^the store has: the quick one's report$"
        ;;
    cancel)
        # The program says that it waits; then it gets what Ctrl-C would send.
        mkfifo "$dir/pipe"
        "$program" >"$dir/pipe" 2>&1 &
        background=$!
        {
            read -r line
            echo "$line"
            kill -INT "$background" || :
            cat
        } <"$dir/pipe" >"$dir/out"
        code=0
        wait "$background" || code=$?
        background=
        expect '^waiting for a lock' '^canceled: '
        test "$code" -eq 0 || fail "exits with $code"
        ;;
    config)
        sed "s|^path = /tmp/.*|path = $dir/locks|; s|^port = .*|port = 1|" "$here/locker.conf" >"$dir/conf"
        run "$program" "$dir/conf"
        expect '^driver: *memory$' '^locked: *examples/config, by example$'
        run "$program" "$dir/conf" host
        expect '^driver: *file$' '^locked: *examples/config, by example$'
        run "$program"
        expect '^driver: *file$'
        # Nothing listens on port 1: the profile is understood, and the server is missing.
        if "$program" "$dir/conf" network >"$dir/out" 2>&1; then fail 'reaches a server that is not there'; fi
        expect '^un[a-z]*: .'
        if "$program" "$dir/conf" missing >"$dir/out" 2>&1; then fail 'opens a profile that is not there'; fi
        expect '^config: .*\[missing\]'
        ;;
    counter)
        # Four processes, 250 increments each: none is lost.
        echo 0 >"$dir/number"
        pids=
        for _ in 1 2 3 4; do
            "$program" "$dir/number" 250 examples/counter &
            pids="$pids $!"
        done
        for pid in $pids; do
            wait "$pid" || fail "exits with $?"
        done
        cp "$dir/number" "$dir/out"
        expect '^1000$'
        ;;
    orders)
        run "$program" 42 43
        expect '^42: the invoice goes out$' '^2 in the books$'
        ;;
    cron)
        PATH=$(dirname "$locker"):$PATH
        run "$program"
        expect '^nightly job: running with fencing token [1-9]'
        # Another run holds the lock, until its input ends.
        mkfifo "$dir/held" "$dir/end"
        "$locker" run jobs/nightly -- sh -c 'echo held; read -r line || :' <"$dir/end" >"$dir/held" &
        background=$!
        exec 3>"$dir/end"
        read -r line <"$dir/held"
        run "$program"
        [ ! -s "$dir/out" ] || fail "prints something, of which cron would send a mail: $(cat "$dir/out")"
        exec 3>&-
        wait "$background"
        background=
        run "$program"
        expect '^nightly job: running'
        ;;
    *)
        fail 'is not an example that this script knows'
        ;;
esac
