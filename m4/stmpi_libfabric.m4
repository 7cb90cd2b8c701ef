dnl SPDX-License-Identifier: BSD-3-Clause
dnl STMPI_LIBFABRIC: --with-libfabric. Headers only: the library is opened at run time, never linked. Of a PATH the
dnl folder of its library becomes part of our own search path, which dlopen follows.
AC_DEFUN([STMPI_LIBFABRIC], [
  AC_ARG_WITH([libfabric],
    [AS_HELP_STRING([--with-libfabric@<:@=yes|no|auto|PATH@:>@], [libfabric's headers, for networks between nodes])],
    [], [with_libfabric=auto])
  OFI_CPPFLAGS=
  OFI_LDFLAGS=
  stmpi_ofi=no
  AS_CASE([$with_libfabric],
    [no], [stmpi_ofi_why="off: --without-libfabric"],
    [
      AS_CASE([$with_libfabric], [yes|auto], [], [
        dnl The compiler would go on to the system's header.
        AS_IF([test -f "$with_libfabric/include/rdma/fabric.h"], [],
          [AC_MSG_ERROR([--with-libfabric=$with_libfabric: $with_libfabric/include/rdma/fabric.h was not found])])
        with_libfabric=`cd "$with_libfabric" && pwd`
        OFI_CPPFLAGS="-I$with_libfabric/include"
        for stmpi_dir in "$with_libfabric/lib" "$with_libfabric/lib64"; do
          AS_IF([test -f "$stmpi_dir/libfabric.so.1"], [OFI_LDFLAGS="-Wl,-rpath,$stmpi_dir"])
        done
      ])
      stmpi_save_CPPFLAGS=$CPPFLAGS
      CPPFLAGS="$CPPFLAGS $OFI_CPPFLAGS"
      AC_CHECK_HEADER([rdma/fabric.h], [stmpi_ofi=yes])
      CPPFLAGS=$stmpi_save_CPPFLAGS
      stmpi_ofi_why="on: headers found, the library is opened at run time"
      AS_IF([test $stmpi_ofi = no], [
        stmpi_ofi_why="off: rdma/fabric.h was not found"
        AS_IF([test "x$with_libfabric" != xauto],
          [AC_MSG_ERROR([--with-libfabric=$with_libfabric: rdma/fabric.h was not found])])
      ])
    ])
  AS_IF([test $stmpi_ofi = yes], [AC_DEFINE([HAVE_OFI], [1], [libfabric's headers are here])])
  AM_CONDITIONAL([HAVE_OFI], [test $stmpi_ofi = yes])
  AC_SUBST([OFI_CPPFLAGS])
  AC_SUBST([OFI_LDFLAGS])
])
