# same.sh: a seed gives the same run each time, to the last byte of its trace, and another seed gives another one. The second
# time memory lies elsewhere, and what is freed, or fresh, is not zero: no run may hang on an address, as other libcs give
# others.
#
#   same.sh LOCKER-SIMULATE [--driver NAME]
set -u
work=$(mktemp -d) || exit 71
trap 'rm -rf "$work"' EXIT
program=$1
shift
for seed in 7 8; do
    "$program" "$@" --seed "$seed" --trace "$work/$seed.first" >/dev/null || exit 1
    MALLOC_PERTURB_=165 GLIBC_TUNABLES=glibc.malloc.tcache_count=0 \
        "$program" "$@" --seed "$seed" --trace "$work/$seed.second" >/dev/null || exit 1
    cmp "$work/$seed.first" "$work/$seed.second" || exit 1
    [ "$(wc -l <"$work/$seed.first")" -gt 400 ] || { echo "same: the trace of seed $seed says nearly nothing" && exit 1; }
done
if cmp -s "$work/7.first" "$work/8.first"; then
    echo "same: two seeds give one run"
    exit 1
fi
