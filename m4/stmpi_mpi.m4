dnl SPDX-License-Identifier: BSD-3-Clause
dnl STMPI_MPI: --with-mpi=PATH. Finds the MPI's wrappers; the flags come from what they say of themselves.
dnl Substitutes MPICC, MPICXX, MPIRUN, MPI_CPPFLAGS, MPI_LIBS.
AC_DEFUN([STMPI_MPI], [
  AC_ARG_WITH([mpi],
    [AS_HELP_STRING([--with-mpi=PATH], [prefix of an MPICH, or its mpicc; default: mpicc.mpich or mpicc in PATH])],
    [], [with_mpi=auto])
  AS_CASE([$with_mpi],
    [no], [AC_MSG_ERROR([--without-mpi: stmpi is a plugin to an MPI])],
    [yes|auto], [
      AC_PATH_PROGS([MPICC], [mpicc.mpich mpicc])
    ], [
      AS_IF([test -d "$with_mpi"], [stmpi_mpicc=$with_mpi/bin/mpicc], [stmpi_mpicc=$with_mpi])
      AS_IF([test -x "$stmpi_mpicc"],
        dnl In full: the tools that are installed name it.
        [MPICC=`cd "$(dirname "$stmpi_mpicc")" && pwd`/`basename "$stmpi_mpicc"`],
        [AC_MSG_ERROR([--with-mpi=$with_mpi: $stmpi_mpicc is not a program])])
      AC_SUBST([MPICC])
    ])
  AS_IF([test -z "$MPICC"], [AC_MSG_ERROR([no mpicc found: install MPICH or use --with-mpi=PATH])])
  dnl mpicc.mpich has mpicxx.mpich and mpirun.mpich beside it.
  stmpi_mpi_dir=`AS_DIRNAME(["$MPICC"])`
  stmpi_mpi_suffix=`basename "$MPICC" | $SED 's/^mpicc//'`
  MPICXX=$stmpi_mpi_dir/mpicxx$stmpi_mpi_suffix
  MPIRUN=$stmpi_mpi_dir/mpirun$stmpi_mpi_suffix
  AS_IF([test -x "$MPIRUN"], [], [AC_MSG_ERROR([$MPIRUN is missing beside $MPICC])])

  AC_MSG_CHECKING([for the flags of $MPICC])
  stmpi_show=`"$MPICC" -show 2>/dev/null`
  AS_IF([test -z "$stmpi_show"], [AC_MSG_ERROR([$MPICC -show says nothing: is it MPICH's wrapper?])])
  MPI_CPPFLAGS=
  MPI_LIBS=
  for stmpi_word in $stmpi_show; do
    AS_CASE([$stmpi_word],
      [-I*|-D*], [MPI_CPPFLAGS="$MPI_CPPFLAGS $stmpi_word"],
      [-L/usr/lib*], [MPI_LIBS="$MPI_LIBS $stmpi_word"],
      [-L*], [MPI_LIBS="$MPI_LIBS $stmpi_word -Wl,-rpath,`echo $stmpi_word | $SED 's/^-L//'`"],
      [-l*|*.so|*.a], [MPI_LIBS="$MPI_LIBS $stmpi_word"])
  done
  AC_MSG_RESULT([$MPI_CPPFLAGS $MPI_LIBS])

  stmpi_save_CPPFLAGS=$CPPFLAGS
  stmpi_save_LIBS=$LIBS
  CPPFLAGS="$CPPFLAGS $MPI_CPPFLAGS"
  LIBS="$MPI_LIBS $LIBS"
  AC_MSG_CHECKING([whether it is an MPICH that works])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include <mpi.h>
#ifndef MPICH_VERSION
#error not MPICH
#endif
    ]], [[return MPI_Init(0, 0);]])], [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([$MPICC does not build programs for an MPI with MPICH's ABI; see config.log])])
  AC_COMPUTE_INT([stmpi_mpi_number], [MPICH_NUMVERSION], [[#include <mpi.h>]], [stmpi_mpi_number=0])
  stmpi_mpi_version="MPICH `expr $stmpi_mpi_number / 10000000`.`expr $stmpi_mpi_number / 100000 % 100`.`expr $stmpi_mpi_number / 1000 % 100`"
  CPPFLAGS=$stmpi_save_CPPFLAGS
  LIBS=$stmpi_save_LIBS
  AC_DEFINE_UNQUOTED([STMPI_MPI_VERSION], ["$stmpi_mpi_version"], [The MPI of the build])
  AC_DEFINE_UNQUOTED([STMPI_MPICC], ["$MPICC"], [Its compiler wrapper])
  AC_SUBST([MPICXX])
  AC_SUBST([MPIRUN])
  AC_SUBST([MPI_CPPFLAGS])
  AC_SUBST([MPI_LIBS])
])
