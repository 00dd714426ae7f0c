# same.sh: a seed gives the same run each time, to the last byte of its trace, and another seed gives another one.
#
#   same.sh LOCKER-SIMULATE [--driver NAME]
set -u
work=$(mktemp -d) || exit 71
trap 'rm -rf "$work"' EXIT
program=$1
shift
for seed in 7 8; do
    for time in first second; do
        "$program" "$@" --seed "$seed" --trace "$work/$seed.$time" >/dev/null || exit 1
    done
    cmp "$work/$seed.first" "$work/$seed.second" || exit 1
    [ "$(wc -l <"$work/$seed.first")" -gt 1000 ] || { echo "same: the trace of seed $seed says nearly nothing" && exit 1; }
done
if cmp -s "$work/7.first" "$work/8.first"; then
    echo "same: two seeds give one run"
    exit 1
fi
