/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver.c: the CUDA driver, found at run time: this library links none of CUDA's. Each call is
 * asked for by name and version (cuGetProcAddress), so that a newer driver gives the form that we
 * were written for. Cold.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "stream/cuda/cuda_int.h"
#include "util/error.h"

struct cuda_calls cuda_call;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int verdict;
static char reason[256];

/* cuGetProcAddress itself has two forms: of 11.3, and of 12.0 with one argument more. */
typedef CUresult(CUDAAPI *get_fn)(const char *name, void **fn, int version, cuuint64_t flags);
typedef CUresult(CUDAAPI *get_v2_fn)(const char *name, void **fn, int version, cuuint64_t flags,
				     void *status);

struct finder {
	get_fn get;
	get_v2_fn get_v2;
};

static int refuse(const char *format, const char *a, const char *b)
{
	int n = snprintf(reason, sizeof(reason), "no CUDA device: ");

	snprintf(reason + n, sizeof(reason) - (size_t)n, format, a, b);
	return -STMPI_ENODEV;
}

static void *find(const struct finder *f, const char *name, int version)
{
	void *fn = NULL;
	CUresult e;

	/* Flags 0: stream 0 is the legacy default stream. */
	e = f->get_v2 != NULL ? f->get_v2(name, &fn, version, 0, NULL)
			      : f->get(name, &fn, version, 0);
	return e == CUDA_SUCCESS ? fn : NULL;
}

static int fill(const struct finder *f)
{
	void *fn;

#define CUDA_FIND(name, version, arguments)                                                        \
	fn = find(f, #name, version);                                                              \
	if (fn == NULL)                                                                            \
		return refuse("the driver has no %s of CUDA %s", #name, #version);                 \
	memcpy(&cuda_call.name, &fn, sizeof(fn));
	CUDA_CALLS(CUDA_FIND)
#undef CUDA_FIND
#define CUDA_FIND(name, version, arguments)                                                        \
	fn = find(f, #name, version);                                                              \
	memcpy(&cuda_call.name, &fn, sizeof(fn));
	CUDA_OPTIONAL_CALLS(CUDA_FIND)
#undef CUDA_FIND
	return 0;
}

static int load(void)
{
	char text[CUDA_TEXT_BYTES];
	struct finder f = {NULL, NULL};
	int count = 0, ret;
	void *lib, *fn;
	CUresult e;

	lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (lib == NULL)
		return refuse("%s%s", dlerror(), "");
	fn = dlsym(lib, "cuGetProcAddress_v2");
	memcpy(&f.get_v2, &fn, sizeof(fn));
	fn = dlsym(lib, "cuGetProcAddress");
	memcpy(&f.get, &fn, sizeof(fn));
	if (f.get_v2 == NULL && f.get == NULL)
		return refuse("the driver is older than CUDA %s%s", "11.3", "");
	ret = fill(&f);
	if (ret != 0)
		return ret;
	e = cuda_call.cuInit(0);
	if (e != CUDA_SUCCESS)
		return refuse("cuInit: %s%s", cuda_error_text(e, text, sizeof(text)), "");
	e = cuda_call.cuDeviceGetCount(&count);
	if (e != CUDA_SUCCESS)
		return refuse("cuDeviceGetCount: %s%s", cuda_error_text(e, text, sizeof(text)), "");
	return count > 0 ? 0 : refuse("the driver sees none%s%s", "", "");
}

static void load_once(void)
{
	verdict = load();
}

int cuda_driver_open(char *why, size_t why_bytes)
{
	pthread_once(&once, load_once);
	if (verdict != 0)
		snprintf(why, why_bytes, "%s", reason);
	return verdict;
}

const char *cuda_error_text(CUresult error, char *text, size_t bytes)
{
	const char *name = NULL, *meaning = NULL;

	if (cuda_call.cuGetErrorName(error, &name) != CUDA_SUCCESS || name == NULL)
		name = "unknown error";
	if (cuda_call.cuGetErrorString(error, &meaning) != CUDA_SUCCESS || meaning == NULL)
		meaning = "";
	snprintf(text, bytes, "%s (%d%s%s)", name, (int)error, meaning[0] != '\0' ? ", " : "",
		 meaning);
	return text;
}

int cuda_error_set(CUresult error, const char *what, const char *call)
{
	char text[CUDA_TEXT_BYTES];
	int code;

	switch (error) {
	case CUDA_ERROR_OUT_OF_MEMORY:
		code = STMPI_ENOMEM;
		break;
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_HANDLE:
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
	case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
		code = STMPI_EINVAL;
		break;
	default:
		code = STMPI_ENODEV;
	}
	return stmpi_error_set(code, "%s: %s: %s", what, call,
			       cuda_error_text(error, text, sizeof(text)));
}
