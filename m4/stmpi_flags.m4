dnl SPDX-License-Identifier: BSD-3-Clause
dnl STMPI_FLAGS: the language, warnings, --enable-werror, --enable-sanitizers.
AC_DEFUN([STMPI_FLAGS], [
  STMPI_CFLAGS="-std=gnu11 -pthread -Wall -Wextra -Wmissing-prototypes -Wmissing-field-initializers -Wshadow -Wstrict-prototypes -Wundef"
  AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [a warning is an error])], [], [enable_werror=no])
  stmpi_werror_why="are warnings"
  AS_IF([test "x$enable_werror" = xyes], [
    STMPI_CFLAGS="$STMPI_CFLAGS -Werror"
    stmpi_werror_why="are errors"
  ])

  AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers=LIST], [address,undefined or thread])],
    [], [enable_sanitizers=no])
  stmpi_sanitizers_why="off"
  AS_CASE([$enable_sanitizers],
    [no], [],
    [yes], [enable_sanitizers=address,undefined],
    [address|undefined|thread|address,undefined|undefined,address], [],
    [AC_MSG_ERROR([--enable-sanitizers=$enable_sanitizers: must be address, undefined, address,undefined or thread])])
  AS_IF([test "x$enable_sanitizers" != xno], [
    STMPI_SANITIZE="-fsanitize=$enable_sanitizers -fno-omit-frame-pointer"
    stmpi_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $STMPI_SANITIZE"
    AC_MSG_CHECKING([whether $CC links with $STMPI_SANITIZE])
    AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])
       AC_MSG_ERROR([--enable-sanitizers=$enable_sanitizers: the compiler's run-time library is missing])])
    CFLAGS=$stmpi_save_CFLAGS
    stmpi_sanitizers_why="on: $enable_sanitizers"
    AS_CASE([$enable_sanitizers],
      [*address*], [STMPI_SANITIZER_LIB=`$CC -print-file-name=libasan.so`],
      [thread], [STMPI_SANITIZER_LIB=`$CC -print-file-name=libtsan.so`])
  ])
  AC_SUBST([STMPI_CFLAGS])
  AC_SUBST([STMPI_SANITIZE])
  AC_SUBST([STMPI_SANITIZER_LIB])
  AC_SUBST([STMPI_SANITIZERS], [$enable_sanitizers])
])
