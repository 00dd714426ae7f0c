#!/bin/sh
# The kit's command line, on the program given.
set -eu

program=$1
fail() {
    echo "command.sh: $*" >&2
    exit 1
}
answers() { # CODE WORDS ARGUMENTS...: the program's exit code, and what it prints
    wanted=$1 words=$2
    shift 2
    code=0
    output=$("$program" "$@" 2>&1) || code=$?
    [ "$code" -eq "$wanted" ] || fail "'$*' exits with $code, not $wanted: $output"
    echo "$output" | grep -q -- "$words" || fail "'$*' doesn't print '$words': $output"
}

answers 0 '^usage: .*GROUP' --help
answers 0 '^groups: contract basics waiting cancel processes leases loss handles fork load storms shared permits several shared_storms scale$' --help
answers 0 '^contract/close_leaves_no_memory$' --list
answers 0 '^conformance: driver toy: 9 tests, 0 failed' contract
answers 0 'lock_and_unlock' basics lock_and_unlock
answers 1 'group basics has no test nothing' basics nothing
answers 64 'there is no group colours' colours
answers 64 '^usage: ' --colour
answers 64 '^usage: ' --percent 101 scale
answers 64 '^usage: ' basics one two
# What is skipped is no failure, and the summary says so.
answers 0 'SKIPPED' processes processes_exclude_each_other
answers 0 '6 tests, 0 failed, 6 skipped because .*; so nothing was tested$' shared_storms
HANG_MS=999 answers 64 'hang_ms is less than 1000' basics
