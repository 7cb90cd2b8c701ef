/* SPDX-License-Identifier: BSD-3-Clause */
/* host.h: the host backend's table of operations, for the registry. */
#ifndef STMPI_STREAM_HOST_HOST_H
#define STMPI_STREAM_HOST_HOST_H

#include "stream/stream.h"

extern const struct stmpi_stream_ops stmpi_stream_host_ops;

#endif
