#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What configure must refuse: a part that was asked for at a place where it is not, though the system has one. And a CMake
# consumer, in C and C++, of an installation whose folders are not the usual ones.
set -e
top=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mpi=--with-mpi=/usr/bin/mpicc.mpich
mkdir "$work/b" "$work/empty"
cd "$work/b"

refuse() # PATTERN OPTION...
{
	local pattern=$1
	shift
	if "$top/configure" -q "$mpi" "$@" > log 2>&1; then
		echo "configure took $*"
		exit 1
	fi
	grep -qE "error: $pattern" log || { echo "configure $*: no \"$pattern\" in:"; tail -n 5 log; exit 1; }
}

refuse "--with-libfabric=$work/empty: .*fabric.h was not found" --with-libfabric="$work/empty"
refuse "--with-hwloc=$work/empty: .*was not found there" --with-hwloc="$work/empty"
refuse "--with-cuda=$work/empty: cuda.h was not found" --with-cuda="$work/empty"
refuse "--with-mpi=$work/empty: .* is not a program" --with-mpi="$work/empty"
refuse "--enable-sanitizers=memory: must be" --enable-sanitizers=memory
if "$top/configure" -q "$mpi" --with-hwloc=/usr --with-libfabric=/usr > log 2>&1; then :; else
	cat log
	exit 1
fi

# A libfabric of one's own: its folder is where the library looks at run time.
mkdir -p "$work/own/include" "$work/own/lib"
cp -r /usr/include/rdma "$work/own/include/"
touch "$work/own/lib/libfabric.so.1"
"$top/configure" -q "$mpi" --with-libfabric="$work/own" --prefix="$work/p" --libdir="$work/p/lib/deep/er" \
	--includedir="$work/p/headers/of" > log
make -s -j"$(nproc)" install > make.log 2>&1 || { tail -n 20 make.log; exit 1; }
readelf -d "$work/p/lib/deep/er/libstmpi.so" | grep -q "RUNPATH.*$work/own/lib" || { echo "no RUNPATH"; exit 1; }

# Moved after the installation: the file says where things are from where it stands.
mv "$work/p" "$work/moved"
mkdir "$work/c"
cd "$work/c"
cat > main.c <<'EOF'
#include <mpi.h>
#include <mpix.h>
#include <stmpi.h>
#include <stdio.h>
int main(void)
{
	return printf("%s\n", stmpi_version()) < 0;
}
EOF
cp main.c main.cc
cat > CMakeLists.txt <<'EOF'
cmake_minimum_required(VERSION 3.16)
project(consumer C CXX)
find_package(stmpi 0.1 REQUIRED)
add_executable(c main.c)
target_link_libraries(c PRIVATE stmpi::stmpi)
add_executable(cc main.cc)
target_link_libraries(cc PRIVATE stmpi::stmpi)
EOF
cmake -DCMAKE_C_COMPILER=mpicc.mpich -DCMAKE_CXX_COMPILER=mpicxx.mpich -Dstmpi_DIR="$work/moved/lib/deep/er/cmake/stmpi" . > log 2>&1 ||
	{ tail -n 20 log; exit 1; }
make > log 2>&1 || { tail -n 20 log; exit 1; }
for program in c cc; do
	readelf -d $program | grep -q 'NEEDED.*libstmpi.so.0' || { echo "$program does not need libstmpi.so.0"; exit 1; }
	version=$(timeout 20 ./$program)
	[ "$version" = 0.1.0 ] || { echo "$program says $version"; exit 1; }
done
