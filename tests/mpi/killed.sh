#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# killed.sh: a run whose ranks are killed in the middle leaves nothing of ours behind, and the next one works.
marker=$$
before=$(find /dev/shm -name '*stmpi*' | wc -l)
STMPI_TEST_MARKER=$marker tools/stmpirun -n 2 tests/soak/.libs/soak 1000000 > /dev/null 2>&1 &
launcher=$!
ranks=
for _ in $(seq 100); do
	sleep 0.1
	ranks=
	for pid in $(pgrep -x soak); do
		tr '\0' '\n' < "/proc/$pid/environ" 2> /dev/null | grep -qx "STMPI_TEST_MARKER=$marker" && ranks="$ranks $pid"
	done
	[ "$(wc -w <<< "$ranks")" -eq 2 ] && break
done
sleep 1
[ -n "$ranks" ] || { echo "the ranks did not start"; exit 1; }
for rank in $ranks; do
	kill -KILL "$rank" 2> /dev/null
done
wait "$launcher"
for rank in $ranks; do
	[ ! -d "/proc/$rank" ] || { echo "rank $rank is still there"; exit 1; }
done
[ "$(find /dev/shm -name '*stmpi*' | wc -l)" -le "$before" ] || { echo "left in /dev/shm"; exit 1; }
tools/stmpirun -n 2 tests/mpi/.libs/test_smoke
