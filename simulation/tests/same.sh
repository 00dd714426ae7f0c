# same.sh: a seed gives the same run each time, to the last byte of its trace, and another seed gives another one. Nothing
# but the seed shapes a run. So the second run is that of a copy of the program with another name, in another directory, with
# another environment, user and host name. Its descriptors have other numbers, its memory lies elsewhere, and memory that is
# freed, or fresh, is not zero.
#
#   same.sh LOCKER-SIMULATE [--driver NAME]
set -u
umask 022
work=$(mktemp -d) || exit 71
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" && mkdir -m 777 "$work/elsewhere" || exit 71
program=$1
shift
copy="$work/elsewhere/a copy, under a name that is long and not ASCII: ümläut"
cp "$program" "$copy" || exit 71

# Another user and host name: root takes those of nobody, and anybody may be root of a namespace.
# shellcheck disable=SC2016 # the inner shell expands them
named='hostname elsewhere && exec "$@"'
if [ "$(id -u)" -eq 0 ] && unshare --uts true 2>/dev/null; then
    other() { unshare --uts sh -c "$named" sh setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
elif unshare --map-root-user --uts true 2>/dev/null; then
    other() { unshare --map-root-user --uts sh -c "$named" sh "$@"; }
else
    sh "$(dirname "$0")/skipped.sh" "that a seed's run is the same for another user and host name" \
        "no namespaces; run it as root, or allow users to make them" || [ $? -eq 77 ] || exit 1
    other() { "$@"; }
fi
fixed= # addresses
if setarch "$(uname -m)" -R true 2>/dev/null; then
    fixed="$(command -v setarch) $(uname -m) -R"
fi

elsewhere() { # SEED [--driver NAME]
    (
        cd "$work/elsewhere" && umask 077 && ulimit -n 200 || exit 71
        # shellcheck disable=SC2086 # a command and its arguments
        other env -i PATH=/nowhere HOME=/nowhere USER=somebody HOSTNAME=elsewhere LANG=tr_TR.UTF-8 LC_ALL=C.UTF-8 \
            TZ=Asia/Kathmandu TMPDIR="$work/elsewhere" LOCKER_URI=file:/nowhere LOCKER_CONFIG=/nowhere \
            LOCKER_PROFILE=another LOCKER_PASSWORD=guess MALLOC_PERTURB_=165 \
            GLIBC_TUNABLES=glibc.malloc.tcache_count=0 \
            $fixed "$copy" "$@" <&- 5</dev/null 6</dev/null 9</dev/null
    )
}

for seed in 7 8; do
    "$program" "$@" --seed "$seed" --trace "$work/$seed.first" >/dev/null || exit 1
    elsewhere "$@" --seed "$seed" --trace "$work/elsewhere/$seed" >/dev/null || exit 1
    cmp "$work/$seed.first" "$work/elsewhere/$seed" || exit 1
    [ "$(wc -l <"$work/$seed.first")" -gt 200 ] || { echo "same: the trace of seed $seed says nearly nothing" && exit 1; }
done
if cmp -s "$work/7.first" "$work/8.first"; then
    echo "same: two seeds give one run"
    exit 1
fi
