dnl SPDX-License-Identifier: BSD-3-Clause
dnl STMPI_CUDA: --with-cuda. For now it is found and reported; this version has no CUDA streams.
AC_DEFUN([STMPI_CUDA], [
  AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda=auto|no|PATH], [prefix of a CUDA toolkit; its cuda.h is for the simulated device of the tests only, in this version])],
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
        [stmpi_cuda_why="off: this version has no CUDA streams yet (found $stmpi_cuda_h)"],
        [stmpi_cuda_why="off: cuda.h was not found"
         AS_CASE([$with_cuda], [auto], [], [AC_MSG_ERROR([--with-cuda=$with_cuda: cuda.h was not found])])])
    ])
  AM_CONDITIONAL([HAVE_CUDA_H], [test -n "$stmpi_cuda_h"])
  AC_SUBST([CUDA_INCLUDE], [${stmpi_cuda_h%/cuda.h}])
])
