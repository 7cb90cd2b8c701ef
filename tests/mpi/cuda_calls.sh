#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# cuda_calls.sh: what one message of 8 bytes costs in calls of the CUDA driver, counted by the simulated device: the
# difference of a run with many messages and one with few, so that what happens once does not count.
simrun=tests/cudasim/simrun
program=tests/mpi/cuda_buffers
few=1000 many=3000
if [ ! -x $simrun ]; then
	echo "skip: no simulated CUDA device (configure found no cuda.h)"
	exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export STMPI_TEST_STREAM=cuda
# shellcheck source=tests/expect.sh
. "$(dirname "$0")/../expect.sh"

# run KIND MESSAGES: the counts of rank 0 in KIND.MESSAGES.0, of rank 1 in KIND.MESSAGES.1
run()
{
	local kind=$1 n=$2 file rank
	tools/stmpirun -n 2 $simrun --counts "$dir/c.%p" $program calls "$n" "$kind" > "$dir/out" 2>&1 || {
		fail "$program calls $n $kind: $(cat "$dir/out")"
		return
	}
	# Files are by process; each process says its rank.
	for file in "$dir"/c.*; do
		rank=$(sed -n "s/^rank \([01]\) is \([0-9]*\)$/\2 \1/p" "$dir/out" | sed -n "s/^${file##*.} //p")
		mv "$file" "$dir/$kind.$n.$rank"
	done
}

# count NAME KIND RANK: calls of NAME (a pattern) for one message, in hundredths
count()
{
	local n sum
	for n in $few $many; do
		sum=$(sed -n '/"driver":/,/}/p' "$dir/$2.$n.$3" | sed -n "s/^ *\"\($1\)[A-Za-z0-9_]*\": \([0-9]*\),*$/\2/p" |
			awk '{ s += $1 } END { print s + 0 }')
		echo "$sum"
	done | awk -v d=$((many - few)) 'NR == 1 { a = $1 } NR == 2 { printf "%d\n", ($1 - a) * 100 / d + 0.5 }'
}

# limit KIND RANK WHAT CALLS: at most so many calls for one message, and none that makes, waits or runs anything
limit()
{
	local all none
	all=$(count 'cu' "$1" "$2")
	none=$(count 'cuEvent\|cuLaunch\|cuStreamSync\|cuStreamCreate\|cuStreamQuery\|cuCtx\|cuMem[AFHGI]\|cuPointer' "$1" "$2")
	echo "simulated: $1, $3 of 8 B: $((all / 100)).$(printf %02d $((all % 100))) driver calls (at most $4)"
	[ "$all" -le $(($4 * 100)) ] || fail "$1, $3: more than $4 calls: $(cat "$dir/$1.$many.$2")"
	[ "$all" -ge 100 ] || fail "$1, $3: nothing was counted"
	[ "$none" -eq 0 ] || fail "$1, $3: calls that a message must not make: $(cat "$dir/$1.$many.$2")"
}

for kind in pinned heap managed device; do
	run $kind $few
	run $kind $many
	[ $failures -eq 0 ] || break
	copies=0
	[ $kind = device ] && copies=1
	limit $kind 0 send $((2 + copies))
	limit $kind 1 "receive and wait" $((2 + 2 * copies))
done
grep -q '"host_functions": 0' "$dir/pinned.$many.1" || fail "host functions"
[ $failures -eq 0 ] && echo "ok cuda_calls"
exit $failures
