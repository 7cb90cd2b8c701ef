#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# test_bench_smoke.sh [DIRECTORY [LAUNCHER]]: every benchmark runs ten iterations with --check, gives JSON of the agreed
# form, and refuses wrong options with exit code 2. DIRECTORY: where the benchmarks are (default: benchmarks of the
# current directory); LAUNCHER: stmpirun or the MPI's mpirun (default: stmpirun). With CUDA streams where the simulated
# device is built.
directory=${1:-${STMPI_BENCH_DIR:-benchmarks}}
launcher=${2:-${STMPI_BENCH_LAUNCHER:-stmpirun}}
limit=60
simulated=()
failures=0

fail()
{
	echo "FAIL: $*"
	failures=$((failures + 1))
}

# run BENCHMARK ARGUMENT...: two ranks; standard output in $output, exit code in $code.
run()
{
	output=$(timeout "$limit" "$launcher" -n 2 "${simulated[@]}" "$directory/$1" "${@:2}" < /dev/null)
	code=$?
}

# is_json KEY...: $output is one JSON document that has these keys somewhere.
is_json()
{
	local key
	if command -v python3 > /dev/null; then
		python3 -c 'import json, sys; json.load(sys.stdin)' <<< "$output" || return 1
	fi
	for key; do
		case $output in
		*"\"$key\":"*) ;;
		*) echo "no key $key in: $output"; return 1 ;;
		esac
	done
}

# expect NAME ARGUMENTS KEY...: the run succeeds and its JSON has the keys.
expect()
{
	local name=$1 arguments
	read -ra arguments <<< "$2"
	shift 2
	run "$name" "${arguments[@]}" --format json
	if [ "$code" -ne 0 ]; then
		fail "$name ${arguments[*]}: exit code $code"
	elif ! is_json benchmark mpi provider trigger stream ranks unit "$@"; then
		fail "$name ${arguments[*]}: not the JSON it should be"
	else
		echo "ok: $name ${arguments[*]}"
	fi
}

# refuse NAME ARGUMENT...: exit code 2 and a text on stderr.
refuse()
{
	local text
	text=$(timeout "$limit" "$launcher" -n "${ranks:-2}" "$directory/$1" "${@:2}" 2>&1 < /dev/null)
	code=$?
	if [ "$code" -ne 2 ] || [[ $text != *"$1: "* ]]; then
		fail "$*: exit code $code, not 2, and the text: $text"
	else
		echo "ok: $* is refused"
	fi
}

if ! [ -x "$directory/st_latency" ]; then
	echo "skipped: no benchmarks in $directory"
	exit 77
fi

expect st_latency "-m 8:64K -i 10 -x 2 --check" rows bytes st st_inline sync mpi raw
expect st_latency "-m 0 -i 10 --check --mode st,mpi" rows st mpi
expect st_bw "-m 1K:64K -i 10 -x 1 --check" rows bytes st st_inline sync mpi raw
expect st_rate "-i 10 --check" rows bytes st mpi raw
expect st_enqueue "-i 10 --check" result ns_per_op last_over_first rss_bytes_per_op
expect st_idle "-i 10 --seconds 1 --check" result idle_cpu_percent pending_cpu_percent

if [ -x tests/cudasim/simrun ]; then
	simulated=(tests/cudasim/simrun)
	for buffer in pinned device; do
		expect st_latency "-m 8:1K -i 10 -x 2 --check --stream cuda --buffer $buffer" rows bytes st st_inline sync mpi raw
	done
	expect st_bw "-m 16K -i 10 -x 1 --check --stream cuda --buffer device" rows bytes st sync
	expect st_rate "-i 10 --check --stream cuda --buffer device" rows bytes st
	expect st_enqueue "-i 10 --check --stream cuda --buffer device" result ns_per_op
	expect st_idle "-i 10 --seconds 1 --check --stream cuda --buffer device" result pending_cpu_percent
	simulated=()
fi

for format in table csv; do
	run st_latency -m 8 -i 10 --mode mpi --format $format
	[ "$code" -eq 0 ] || fail "st_latency --format $format: exit code $code"
done

refuse st_latency -m 64:8
refuse st_bw --mode st,none
refuse st_rate --format xml
refuse st_enqueue -i 0
refuse st_latency --stream none
refuse st_latency --buffer device
refuse st_latency --stream cuda --buffer none
ranks=1 refuse st_idle --seconds 1

[ "$failures" -eq 0 ]
