#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# test_simrun.sh: programs that nothing of ours is in, on the simulated CUDA device, with each option of simrun. In a build
# directory. The part for nvcc needs it.
# shellcheck source=/dev/null
. tests/env.sh
# shellcheck source=tests/expect.sh
. "$(dirname "$0")/../expect.sh"
here=$(dirname "$0")
if [ -z "$CUDA_INCLUDE" ]; then
	echo "skipped: configure found no cuda.h"
	exit 77
fi
sim=$PWD/tests/cudasim
run=$sim/simrun
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export STMPIRUN_LIBRARY=$PWD/.libs/libstmpi.so

# shellcheck disable=SC2154 # CC may hold options
$CC -isystem "$CUDA_INCLUDE" "$here/programs/plain.c" -o "$dir/plain" "$sim/.libs/libcudart.so.13" -Wl,-rpath-link,"$sim/.libs" || exit 1
# shellcheck disable=SC2086
$CC -shared -fPIC -I"$here" "$here/programs/twins.c" -o "$dir/twins.so" || exit 1

expect 0 '^right$' "$run" "$dir/plain"
expect 0 '^right$' "$run" --seed 3 --delay-us 200 --queues 1 --devices 3 --limit 20 "$dir/plain"
expect 1 'no device' "$run" --devices 0 "$dir/plain"
expect 1 'cudaMalloc.*memory allocation' "$run" --fail cudaMalloc:1 "$dir/plain"
expect 1 'cudaMalloc.*memory allocation' "$run" --fail cuMemAlloc:1 "$dir/plain"
expect 1 'simulated: cuMemAlloc_v2: call 1 fails, as --fail asked' "$run" --fail cuMemAlloc_v2:1 "$dir/plain"
expect 0 memops64 "$run" --mask list
expect 2 'unknown' "$run" --mask nonsense true
expect 2 'must be a number from 1 to 128' "$run" --queues 0 true
expect 2 'must be CALL:N' "$run" --fail cuMemAlloc true
expect 2 'which program' "$run"
expect 2 'simulated.*option' "$run" --nonsense true
expect 0 'simulated' "$run" --help
expect 2 'No such file' "$run" "$dir/none"
expect 2 'No such file' "$run" --twins "$dir/none.so" true

expect 0 '^right$' "$run" --counts "$dir/counts.json" "$dir/plain"
grep -q '"device": "simulated"' "$dir/counts.json" || fail "counts do not say what they are of"
grep -q '"cudaMemcpyAsync": 2' "$dir/counts.json" || fail "no count of a runtime call: $(cat "$dir/counts.json")"
grep -q '"cuMemAlloc_v2": 1' "$dir/counts.json" || fail "no count of a driver call"
sed -n '/"threads"/,/}/p' "$dir/counts.json" | grep -q '"plain": [1-9]' || fail "no count of a thread's calls"
if command -v python3 > /dev/null; then
	python3 -m json.tool "$dir/counts.json" > /dev/null || fail "counts are not JSON"
fi
# Ranks do not write each other's file; with %p no two processes do.
expect 0 '^right$' tools/stmpirun -n 2 "$run" --counts "$dir/ranks.json" "$dir/plain"
[ "$(find "$dir" -name 'ranks.json.*' | wc -l)" -eq 2 ] || fail "two ranks, not two files"
# shellcheck disable=SC2154 # set by env.sh
if [ "$sanitizers" != thread ]; then # whose library no shell can be run with
	expect 0 '^right$' "$run" --counts "$dir/outside-%p.json" tools/stmpirun -n 2 "$dir/plain"
	[ "$(find "$dir" -name 'outside-*.json' | wc -l)" -ge 2 ] || fail "no file for each process"
fi

nvcc=${CUDA_INCLUDE%/include}/bin/nvcc
if [ -x "$nvcc" ] && [ "$sanitizers" = no ]; then
	for stream in legacy per-thread; do
		"$nvcc" --cudart shared --default-stream $stream "$here/programs/kernel.cu" -o "$dir/kernel" > "$dir/nvcc.log" 2>&1 || {
			fail "nvcc: $(cat "$dir/nvcc.log")"
			continue
		}
		expect 0 '^right$' "$run" --twins "$dir/twins.so" "$dir/kernel"
		expect 0 '^right$' "$run" --twins "$dir/twins.so" --delay-us 500 "$dir/kernel"
		expect 1 'kernel _ZN6solver5saxpy.* has no twin' "$run" "$dir/kernel"
	done
else
	echo "without nvcc"
fi

[ $failures -eq 0 ] && echo "all as it should be"
exit $((failures != 0))
