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
      AS_CASE([$with_hwloc], [yes|auto], [HWLOC_LIBS="-lhwloc"],
        [HWLOC_CPPFLAGS="-I$with_hwloc/include"
         HWLOC_LIBS="-L$with_hwloc/lib -Wl,-rpath,$with_hwloc/lib -lhwloc"])
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
