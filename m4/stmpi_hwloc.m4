dnl SPDX-License-Identifier: BSD-3-Clause
dnl STMPI_HWLOC: --with-hwloc, for the choice of cores and network devices.
AC_DEFUN([STMPI_HWLOC], [
  AC_ARG_WITH([hwloc],
    [AS_HELP_STRING([--with-hwloc@<:@=yes|no|auto|PATH@:>@], [hwloc, to place threads and choose devices])],
    [], [with_hwloc=auto])
  stmpi_hwloc=no
  HWLOC_CPPFLAGS=
  HWLOC_LIBS=
  AS_CASE([$with_hwloc],
    [no], [stmpi_hwloc_why="off: --without-hwloc"],
    [
      HWLOC_LIBS="-lhwloc"
      AS_CASE([$with_hwloc], [yes|auto], [], [
        dnl The compiler and the linker would go on to the system's.
        stmpi_hwloc_dir=
        for stmpi_dir in "$with_hwloc"/lib "$with_hwloc"/lib64 "$with_hwloc"/lib/*-linux-*; do
          AS_IF([test -z "$stmpi_hwloc_dir" && test -f "$stmpi_dir/libhwloc.so"], [stmpi_hwloc_dir=`cd "$stmpi_dir" && pwd`])
        done
        AS_IF([test -f "$with_hwloc/include/hwloc.h" && test -n "$stmpi_hwloc_dir"], [],
          [AC_MSG_ERROR([--with-hwloc=$with_hwloc: include/hwloc.h or libhwloc.so was not found there])])
        HWLOC_CPPFLAGS="-I`cd "$with_hwloc" && pwd`/include"
        HWLOC_LIBS="-L$stmpi_hwloc_dir -lhwloc"
        AS_CASE([$stmpi_hwloc_dir], [/usr/lib*|/lib*], [], [HWLOC_LIBS="-L$stmpi_hwloc_dir -Wl,-rpath,$stmpi_hwloc_dir -lhwloc"])
      ])
      stmpi_save_CPPFLAGS=$CPPFLAGS
      stmpi_save_LIBS=$LIBS
      CPPFLAGS="$CPPFLAGS $HWLOC_CPPFLAGS"
      LIBS="$HWLOC_LIBS $LIBS"
      AC_MSG_CHECKING([for hwloc 2])
      AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include <hwloc.h>
#if HWLOC_API_VERSION < 0x20000
#error too old
#endif
        ]], [[hwloc_topology_t t; return hwloc_topology_init(&t);]])], [stmpi_hwloc=yes])
      AC_MSG_RESULT([$stmpi_hwloc])
      CPPFLAGS=$stmpi_save_CPPFLAGS
      LIBS=$stmpi_save_LIBS
      stmpi_hwloc_why="on"
      AS_IF([test $stmpi_hwloc = no], [
        stmpi_hwloc_why="off: hwloc 2 was not found"
        HWLOC_LIBS=
        AS_IF([test "x$with_hwloc" != xauto], [AC_MSG_ERROR([--with-hwloc=$with_hwloc: hwloc 2 was not found])])
      ])
    ])
  AS_IF([test $stmpi_hwloc = yes], [AC_DEFINE([HAVE_HWLOC], [1], [hwloc is here])])
  AC_SUBST([HWLOC_CPPFLAGS])
  AC_SUBST([HWLOC_LIBS])
])
