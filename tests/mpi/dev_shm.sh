#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dev_shm.sh: our shared-memory rail needs nothing of /dev/shm: it works with one of 1 MiB that is full. In a build directory.
program=tests/component/.libs/test_core
[ -x "$program" ] || program=tests/component/test_core
[ -x "$program" ] || { echo "skip: this build has no $program"; exit 77; }
unshare -m true 2> /dev/null || { echo "skip: no mount namespace may be made here"; exit 77; }
# shellcheck disable=SC2016 # for the inner shell
unshare -m bash -c '
	mount -t tmpfs -o size=1m tmpfs /dev/shm || exit 77
	dd if=/dev/zero of=/dev/shm/full bs=1M count=2 2> /dev/null
	"$0"
' "$program"
