#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# stmpirun's own options among the launcher's, which take one dash or two and may have values; from the source folder.
# shellcheck disable=SC2016 # texts for the ranks' shells
library=$PWD/build/.libs/libstmpi.so
export STMPIRUN_LIBRARY=$library
unset LD_PRELOAD STMPI_STATS STMPI_WATCHDOG STMPI_OFI_PROVIDER
run=build/tools/stmpirun
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect CODE PATTERN COMMAND...
expect()
{
	local code=$1 pattern=$2 output got
	shift 2
	output=$(timeout 60 "$@" 2>&1 < /dev/null)
	got=$?
	if [ $got -ne "$code" ] || ! grep -qE -e "$pattern" <<< "$output"; then
		echo "FAIL: $*: exit $got (expected $code), no \"$pattern\" in: $output"
		failures=$((failures + 1))
	fi
}

echo localhost > "$work/hosts"
show='echo "[$STMPI_STATS,$STMPI_WATCHDOG,$STMPI_OFI_PROVIDER,$A]"'
for n in -n --n -np --np; do
	expect 0 '^\[on,7,,\]$' $run $n 1 --stats --watchdog=7 sh -c "$show"
done
for option in "-f $work/hosts" "-hostfile $work/hosts" "--hosts localhost" "-machinefile $work/hosts" "-ppn 1" "-map-by core" \
	"-wdir $work" "-usize 4" "-genvlist HOME"; do
	# shellcheck disable=SC2086 # an option and its value
	expect 0 '^\[on,,tcp,\]$' "$PWD/$run" $option --stats --provider tcp -n 1 sh -c "$show"
done
expect 0 '^\[on,,,b\]$' $run -genv A b --stats -n 1 sh -c "$show"
expect 0 '^\[on,,,b\]$' $run -genv A=b --stats -n 1 sh -c "$show"
expect 0 '^\[on,,,b\]$' $run --env A b --stats -n 1 sh -c "$show"
expect 0 '^\[off,,,\]$' $run --stats=off -n 1 sh -c "$show"
# Whatever the user preloads comes behind the library, not in its place.
expect 0 "^$library libm.so.6\$" $run -n 1 -genv LD_PRELOAD libm.so.6 sh -c 'echo $LD_PRELOAD'
expect 0 "^$library libm.so.6\$" $run -genv LD_PRELOAD=libm.so.6 -n 1 sh -c 'echo $LD_PRELOAD'
expect 0 "^$library libm.so.6\$" env LD_PRELOAD=libm.so.6 $run -n 1 sh -c 'echo $LD_PRELOAD'
# Refused before anything is started.
for value in -1 '' soon 1000001 99999999999999999999; do
	expect 2 'must be a number of seconds from 0 to 1000000' $run --watchdog "$value" -n 1 touch "$work/started"
done
expect 2 'a value is missing' $run --provider -n 1 touch "$work/started"
expect 2 'must be one of on off' $run --stats=maybe -n 1 touch "$work/started"
[ ! -e "$work/started" ] || { echo "FAIL: the program was started"; failures=$((failures + 1)); }
expect 0 '^\[,1000000,,\]$' $run --watchdog 1000000 -n 1 sh -c "$show"
[ $failures -eq 0 ]
