#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dies.sh: operations with a rank that is killed end with an error, and MPI_Finalize waits for none of them: over every
# rail the run ends long before its watchdog.
# The launcher sees the shell, not the dead rank: it would kill the other one.
limit=20
failures=0
for rail in "" "--provider tcp" "--provider sockets --trigger deferred" "--provider sockets --trigger software"; do
	begun=$SECONDS
	# shellcheck disable=SC2086 # the rail is options
	output=$(timeout -k 5 60 tools/stmpirun $rail --watchdog $limit -n 2 -disable-auto-cleanup sh -c 'tests/mpi/.libs/dies; true' 2>&1)
	took=$((SECONDS - begun))
	if ! grep -q '^ok dies' <<< "$output" || [ $took -ge $limit ]; then
		echo "dies ${rail:-own rail}: $took s: $output"
		failures=$((failures + 1))
	fi
done
[ $failures -eq 0 ]
