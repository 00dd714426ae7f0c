# seeds.sh: runs seeds that no other commit runs: the first follows from the commit, and is printed. A seed that fails is
# printed with the command that runs it again, on any machine.
#
#   seeds.sh SOURCE LOCKER-SIMULATE DRIVER COUNT
set -eu
source=$1 program=$2 driver=$3 count=$4
if commit=$(git -C "$source" rev-parse HEAD 2>/dev/null); then
    of="commit $commit"
else # an archive of the sources
    commit=$(sha256sum <"$program")
    of="this program"
fi
first=$((0x$(printf '%.12s' "$commit") + 1000000)) # beyond those that are always run
echo "$count seeds of $driver from $first on, those of $of"
exec nice -n 19 "$program" --driver "$driver" --first "$first" --seeds "$count"
