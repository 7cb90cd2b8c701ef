dnl SPDX-License-Identifier: BSD-3-Clause
dnl STMPI_CUDA: --with-cuda. CUDA streams need cuda.h to build, and no library: the driver is found at run time.
AC_DEFUN([STMPI_CUDA], [
  AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda=auto|no|PATH], [CUDA streams, with the cuda.h of this toolkit; found at run time: the driver])],
    [], [with_cuda=auto])
  stmpi_cuda_h=
  AS_CASE([$with_cuda],
    [no], [stmpi_cuda_why="off: --without-cuda"],
    [
      AS_CASE([$with_cuda],
        [yes|auto], [stmpi_cuda_dirs="$CUDA_HOME $CUDA_PATH /usr/local/cuda /usr"],
        [stmpi_cuda_dirs=$with_cuda])
      AC_MSG_CHECKING([for cuda.h])
      for stmpi_dir in $stmpi_cuda_dirs; do
        AS_IF([test -z "$stmpi_cuda_h" && test -f "$stmpi_dir/include/cuda.h"], [stmpi_cuda_h=$stmpi_dir/include/cuda.h])
      done
      AC_MSG_RESULT([${stmpi_cuda_h:-no}])
      AS_IF([test -n "$stmpi_cuda_h"],
        [stmpi_cuda_why="on ($stmpi_cuda_h)"],
        [stmpi_cuda_why="off: cuda.h was not found"
         AS_CASE([$with_cuda], [auto], [], [AC_MSG_ERROR([--with-cuda=$with_cuda: cuda.h was not found])])])
    ])
  AM_CONDITIONAL([HAVE_CUDA_H], [test -n "$stmpi_cuda_h"])
  AC_SUBST([CUDA_INCLUDE], [${stmpi_cuda_h%/cuda.h}])
])
