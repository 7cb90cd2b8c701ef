#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tools.sh: what the tools say, refuse and pass on. In a build directory.
# shellcheck disable=SC2016,SC2154 # texts for the ranks' shells; version is set by env.sh
# shellcheck source=/dev/null
. tests/env.sh
# shellcheck source=tests/expect.sh
. "$(dirname "$0")/../expect.sh"

run=tools/stmpirun
smoke=tests/mpi/.libs/test_smoke
for tool in stmpicc stmpicxx stmpirun; do
	expect 0 '^Usage: ' tools/$tool --help
	expect 0 "$version" tools/$tool --version
done
expect 0 '^Usage: ' tools/stmpinvcc --help
expect 2 'no arguments' tools/stmpinvcc
expect 1 'STMPI_NVCC=/none: no such program' env STMPI_NVCC=/none tools/stmpinvcc -c x.cu
# Any program will do where nothing is compiled.
export STMPI_NVCC=echo
expect 0 "$version" tools/stmpinvcc --version
expect 0 '^echo -ccbin [^ ]+ -I.* x.cu .*-lstmpi .*-lmpi' tools/stmpinvcc -show x.cu
expect 0 '^-ccbin [^ ]+ -I.* -c x.cu$' tools/stmpinvcc -c x.cu
expect 0 '^-I.* -ccbin clang -c x.cu$' tools/stmpinvcc -ccbin clang -c x.cu
unset STMPI_NVCC
expect 2 'no arguments' tools/stmpicc
expect 0 'lstmpi' tools/stmpicc -show x.c
expect 0 '^[^ ]+ -I[^ ]+ -c x.c$' tools/stmpicc -show -c x.c
expect 0 '^Usage: ' tools/stmpi_info --help
expect 0 "stmpi $version" tools/stmpi_info --build
expect 0 'host +on' tools/stmpi_info --backends
expect 0 'shm +on' tools/stmpi_info --backends
expect 0 'STMPI_WATCHDOG=1800' env -u STMPI_WATCHDOG tools/stmpi_info --parameters
expect 0 'STMPI_TRIGGER="?magic.*must be one of|must be one of auto, software' env STMPI_TRIGGER=magic tools/stmpi_info --parameters
expect 0 'core of the progress thread' tools/stmpi_info --topology
expect 0 'deferred: sockets' env STMPI_OFI_PROVIDER=sockets tools/stmpi_info --providers
expect 0 'credits 3 .*doorbell' env STMPI_OFI_PROVIDER=sockets STMPI_TRIGGER_CREDITS=3 tools/stmpi_info --providers
expect 0 'FI_SOCKETS_PE_WAITTIME=7,' env STMPI_OFI_PROVIDER=sockets FI_SOCKETS_PE_WAITTIME=7 tools/stmpi_info --providers
expect 0 'software: STMPI_TRIGGER=software' env STMPI_OFI_PROVIDER=sockets STMPI_TRIGGER=software tools/stmpi_info --providers
expect 0 'software: tcp;ofi_rxm has no deferred work' env 'STMPI_OFI_PROVIDER=tcp;ofi_rxm' tools/stmpi_info --providers
expect 0 'credits 513 are an error: 512 at most' env STMPI_OFI_PROVIDER=sockets STMPI_TRIGGER_CREDITS=513 tools/stmpi_info --providers
expect 0 'STMPI_TRIGGER_CREDITS="0": must be -1 or from 1' env STMPI_OFI_PROVIDER=sockets STMPI_TRIGGER_CREDITS=0 tools/stmpi_info --providers
expect 64 'unexpected argument' tools/stmpi_info extra

expect 2 'must be one of auto deferred software' $run --trigger magic -n 1 $smoke
expect 2 'must be one of auto host' $run --stream-backend=cuda -n 1 $smoke
expect 2 'must be a number' $run --watchdog soon -n 1 $smoke
expect 2 'a value is missing' $run --provider
expect 2 'the name is empty' $run --provider= -n 1 $smoke
expect 2 'no program' $run
# Settings reach the ranks, and only their own: what is ours is not passed on, what is not is.
expect 0 '^soft 17 on$' $run --trigger=software --watchdog 17 --stats -n 1 -genv MINE soft \
	sh -c 'echo $MINE $STMPI_WATCHDOG $STMPI_STATS; test "$STMPI_TRIGGER" = software'
expect 0 '^--stats --provider x$' $run -n 1 echo --stats --provider x
# The library is preloaded for the ranks; the launcher is without.
expect 0 'libstmpi' $run -n 1 sh -c 'echo $LD_PRELOAD'
expect 0 'statistics: sent eager' $run --stats -n 2 $smoke
expect 0 '^ok' $run -n 2 $smoke

# refuses PATTERN COMMAND...: it fails, whatever MPI makes the exit code.
refuses()
{
	local pattern=$1 output
	shift
	output=$(timeout 60 "$@" 2>&1 < /dev/null) && fail "$* was taken"
	grep -qE -e "$pattern" <<< "$output" || fail "$*: no \"$pattern\" in: $output"
}

# An unknown provider is an error that names it, and what there is.
if [ "$(tools/stmpi_info --providers | wc -l)" -gt 2 ]; then
	refuses 'STMPI_OFI_PROVIDER=carrier_pigeon.*it offers' $run --provider carrier_pigeon -n 2 $smoke
fi
# A wrong value is an error of the first call that needs it.
refuses 'STMPI_EAGER_CREDITS="0": must be a whole number from 1' env STMPI_EAGER_CREDITS=0 $run -n 2 $smoke
for n in 0 -2 2049 99999999999; do
	refuses "STMPI_TRIGGER_CREDITS=\"$n\": must be -1 or from 1 to 2048" \
		env STMPI_TRIGGER_CREDITS=$n $run --provider sockets -n 2 $smoke
done
refuses 'STMPI_TRIGGER_CREDITS=600: sockets on .* has 512' env STMPI_TRIGGER_CREDITS=600 $run --provider sockets -n 2 $smoke
# Deferred triggers where they cannot be: an error that names the provider. Too many processes for the works there are:
# software, unless deferred is forced.
refuses 'provider tcp.* has no deferred work' $run --trigger deferred --provider tcp -n 2 $smoke
refuses 'provider shm has no deferred work' $run --trigger deferred --provider shm -n 2 $smoke
refuses 'ranks 0 and 1 are on one node and use stmpi-shm, which has no deferred work' $run --trigger deferred -n 2 $smoke
refuses '600 processes on this node share the 500 works of sockets' \
	$run --trigger deferred --provider sockets -n 2 env MPI_LOCALNRANKS=600 $smoke
expect 0 '' $run --provider sockets -n 2 env MPI_LOCALNRANKS=600 $smoke
expect 0 'deferred.*armed' env STMPI_TRIGGER_CREDITS=2 $run --provider sockets --stats -n 2 $smoke

# Nothing is linked that must not be: the MPI and libfabric come from the program.
needed=$(readelf -d .libs/libstmpi.so | grep NEEDED)
grep -qE 'libmpi|libfabric' <<< "$needed" && fail "libstmpi.so needs: $needed"
echo "tools: $failures failures"
[ $failures -eq 0 ]
