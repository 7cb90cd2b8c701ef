/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "stream/stream.h"
#include "stream/cuda/cuda_backend.h"
#include "stream/host/host.h"
#include "util/error.h"
#include "util/params.h"

const struct stmpi_stream_ops *const stmpi_stream_backends[] = {
	&stmpi_stream_host_ops,
	&stmpi_stream_cuda_ops,
	NULL,
};

int stmpi_stream_backend_find(const char *type_name, const struct stmpi_stream_ops **ops)
{
	const char *only = stmpi_param_text(STMPI_PARAM_STREAM_BACKEND);
	char why[256] = "";
	int ret;

	for (int i = 0; stmpi_stream_backends[i] != NULL; i++) {
		const struct stmpi_stream_ops *b = stmpi_stream_backends[i];

		if (strcmp(b->type_name, type_name) != 0)
			continue;
		if (strcmp(only, "auto") != 0 && strcmp(only, b->name) != 0)
			return stmpi_error_set(STMPI_EINVAL,
					       "type \"%s\": STMPI_STREAM_BACKEND=%s forbids it",
					       type_name, only);
		ret = b->probe(why, sizeof(why));
		if (ret != 0)
			return stmpi_error_set(-ret, "type \"%s\": %s", type_name, why);
		*ops = b;
		return 0;
	}
	return stmpi_error_set(STMPI_EINVAL, "type \"%s\": this build has no such stream type",
			       type_name);
}
