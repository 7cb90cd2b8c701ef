#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# cuda_promises.sh: cuda_promises on simulated devices of other kinds: one hardware queue, two devices; no context on a device
# that is not in use, and no call of the driver by a thread of the library's. In a build directory.
simrun=tests/cudasim/simrun
program=tests/mpi/cuda_promises
if [ ! -x $simrun ]; then
	echo "skip: no simulated CUDA device (configure found no cuda.h)"
	exit 77
fi
# shellcheck source=tests/expect.sh
. "$(dirname "$0")/../expect.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export STMPI_TEST_STREAM=cuda

expect 0 '^ok' tools/stmpirun -n 2 $simrun --queues 1 --limit 30 $program many
expect 0 '^ok' tools/stmpirun -n 2 $simrun --queues 1 --delay-us 50 --limit 30 $program many
expect 0 '^ok' tools/stmpirun -n 2 $simrun --devices 2 --limit 30 $program contexts
expect 0 '^ok' env STMPI_CUDA_WAIT=hostfn tools/stmpirun -n 2 $simrun --devices 2 --limit 30 $program contexts
expect 0 '^ok' tools/stmpirun -n 2 $simrun --delay-us 300 --limit 30 $program kinds

# Messages of device memory on device 0 of 3, in all ways that the library has.
expect 0 '^ok' tools/stmpirun -n 2 $simrun --devices 3 --counts "$dir/counts" tests/mpi/cuda_buffers
for f in "$dir"/counts*; do
	grep -q '"contexts": \[[1-9][0-9]*, 0, 0\]' "$f" || fail "contexts on devices that are not in use: $(grep contexts "$f")"
	threads=$(sed -n '/"threads"/,/}/p' "$f")
	grep -q '"stmpi-' <<< "$threads" && fail "a thread of the library's made calls of the driver: $threads"
	grep -q '"cuda_buffers": [1-9]' <<< "$threads" || fail "no thread made calls: $threads"
done
[ $failures -eq 0 ] && echo "ok cuda_promises"
exit $((failures != 0))
