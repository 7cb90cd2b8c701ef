/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_backend.h: the CUDA backend's table of operations, for the registry. */
#ifndef STMPI_STREAM_CUDA_CUDA_BACKEND_H
#define STMPI_STREAM_CUDA_CUDA_BACKEND_H

#include "stream/stream.h"

extern const struct stmpi_stream_ops stmpi_stream_cuda_ops;

#endif
