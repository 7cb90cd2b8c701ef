# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# expect.sh: what the test scripts share; sourced. They end with [ $failures -eq 0 ].
failures=0

fail()
{
	echo "FAIL: $*"
	failures=$((failures + 1))
}

# expect CODE PATTERN COMMAND...
expect()
{
	local code=$1 pattern=$2 output
	shift 2
	output=$(timeout 60 "$@" 2>&1 < /dev/null)
	local got=$?
	[ $got -eq "$code" ] || fail "$*: exit $got, not $code: $output"
	grep -qE -e "$pattern" <<< "$output" || fail "$*: no \"$pattern\" in: $output"
}
