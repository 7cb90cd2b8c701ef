#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# cuda_faults.sh: the nth call of the CUDA driver fails, for each call on the path of a message and for n from 1 until a
# run sees no fault: one call of ours fails, everything else goes on, and MPI_Finalize ends.
simrun=tests/cudasim/simrun
if [ ! -x $simrun ]; then
	echo "skip: no simulated CUDA device (configure found no cuda.h)"
	exit 77
fi
export STMPI_TEST_STREAM=cuda
failures=0 runs=0 told=0

# The test's own copies are cuMemcpyAsync, too: calls 1 and the last.
try()
{
	local call=$1 kind=$2 from=$3 n out
	for n in $(seq "$from" 40); do
		if ! out=$(timeout 60 tools/stmpirun -n 1 $simrun --limit 20 --fail "$call:$n" tests/mpi/cuda_buffers faults "$kind" 2>&1); then
			echo "FAIL: $call:$n, $kind: $out"
			failures=$((failures + 1))
		fi
		runs=$((runs + 1))
		grep -q 'as --fail asked' <<< "$out" || break
		grep -q '^1 calls failed' <<< "$out" && told=$((told + 1))
	done
}

try cuStreamIsCapturing pinned 2
try cuStreamWriteValue64 pinned 1
try cuStreamBatchMemOp pinned 1
try cuStreamBatchMemOp device 1
echo "simulated: $runs runs, in $told the fault was told of"
[ $told -ge 12 ] || failures=$((failures + 1))
[ $failures -eq 0 ] && echo "ok cuda_faults"
exit $failures
