# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# setup.sh: what quickstart and runtests share: packages, an MPI, configure, make. Sourced from the source folder.
# shellcheck disable=SC2034,SC2100 # variables for those who source this

say()
{
	echo "== $*"
}

die()
{
	echo "$0: error: $*" >&2
	exit 1
}

as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo > /dev/null; then
		sudo "$@"
	else
		die "these packages must be installed as root, and there is no sudo: $missing"
	fi
}

# need PACKAGE...: install those Debian packages that are missing; nothing is asked of the network when none is.
need()
{
	missing=
	for p; do
		dpkg-query -W -f '${Status}' "$p" 2> /dev/null | grep -q 'install ok installed' || missing="$missing $p"
	done
	[ -n "$missing" ] || return 0
	command -v apt-get > /dev/null || die "this is no Debian; install the likes of:$missing"
	say "installing:$missing"
	export DEBIAN_FRONTEND=noninteractive
	local log
	log=$(mktemp)
	# shellcheck disable=SC2086
	if ! { as_root apt-get update -q && as_root apt-get install -y -q --no-install-recommends $missing; } > "$log" 2>&1; then
		tail -n 20 "$log" >&2
		rm -f "$log"
		die "apt-get could not install (is there a network?):$missing"
	fi
	rm -f "$log"
}


build_packages="gcc g++ make autoconf automake libtool pkg-config libc6-dev uthash-dev libhwloc-dev libfabric-dev scdoc mpich libmpich-dev procps"
test_packages="check clang libclang-rt-14-dev clang-format-14 cppcheck shellcheck cmake xz-utils python3"

# use_mpi debian|mpich5: set build (folder) and mpi_option; get the MPI if it is missing.
use_mpi()
{
	case $1 in
	debian)
		build=build
		mpi_option=--with-mpi=/usr/bin/mpicc.mpich ;;
	mpich5)
		build=build-mpich5
		mpi_option=--with-mpi=$PWD/build-mpich5/venv
		[ -x build-mpich5/venv/bin/mpicc ] && return
		need python3 python3-venv
		say "getting MPICH 5 from the Python package mpich into build-mpich5/venv"
		mkdir -p build-mpich5
		# The system's Python: another one in PATH may lack what venv needs.
		/usr/bin/python3 -m venv build-mpich5/venv || die "python3 -m venv failed"
		build-mpich5/venv/bin/pip install -q --disable-pip-version-check 'mpich>=5.0,<5.1' ||
			die "pip could not install the package mpich; is there a network?" ;;
	*) die "--mpi=$1: must be debian or mpich5" ;;
	esac
}

make_configure()
{
	[ configure -nt configure.ac ] && [ -f build-aux/ltmain.sh ] && [ Makefile.in -nt Makefile.am ] && return
	say "making configure"
	./autogen.sh > autogen.log 2>&1 || { cat autogen.log >&2; die "autogen.sh failed"; }
	rm -f autogen.log
}

# configure_in FOLDER [OPTION]...: configure there, once.
configure_in()
{
	local dir=$1
	shift
	make_configure
	mkdir -p "$dir"
	[ -f "$dir/config.status" ] && [ "$dir/config.status" -nt configure ] && return
	say "configuring in $dir"
	(cd "$dir" && ../configure -q "$@" > configure.log 2>&1) || {
		tail -n 20 "$dir/configure.log" >&2
		die "configure failed; see $dir/configure.log and $dir/config.log"
	}
}

# Tests need what an earlier configure, such as quickstart's, may not have found: then configure again.
forget_without_tests()
{
	local dir
	for dir in build build-mpich5 build-asan build-tsan; do
		[ -f "$dir/config.status" ] || continue
		grep -q 'S\["HAVE_CHECK_TRUE"\]=""' "$dir/config.status" || rm -f "$dir/config.status"
	done
}

# make_in FOLDER [TARGET]...
make_in()
{
	local dir=$1
	shift
	make -C "$dir" -j"$(nproc)" "$@" > "$dir/make.log" 2>&1 || {
		tail -n 40 "$dir/make.log" >&2
		die "make failed; see $dir/make.log"
	}
}
