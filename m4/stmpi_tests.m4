dnl SPDX-License-Identifier: BSD-3-Clause
dnl STMPI_UTHASH, STMPI_CHECK, STMPI_SCDOC: the header-only lists and tables, the test library, the manual pages.
AC_DEFUN([STMPI_UTHASH], [
  AC_CHECK_HEADERS([uthash.h utlist.h], [],
    [AC_MSG_ERROR([uthash.h and utlist.h are missing (Debian: uthash-dev)])])
])

AC_DEFUN([STMPI_CHECK], [
  PKG_CHECK_MODULES([CHECK], [check >= 0.15],
    [stmpi_check=yes
     stmpi_check_why="on: Check `$PKG_CONFIG --modversion check`"],
    [stmpi_check=no
     stmpi_check_why="off: the library Check was not found"])
  AM_CONDITIONAL([HAVE_CHECK], [test $stmpi_check = yes])
])

AC_DEFUN([STMPI_SCDOC], [
  AC_PATH_PROG([SCDOC], [scdoc])
  AM_CONDITIONAL([HAVE_SCDOC], [test -n "$SCDOC"])
  AS_IF([test -n "$SCDOC"], [stmpi_scdoc_why="on"], [stmpi_scdoc_why="off: scdoc was not found"])
])
