/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels.c: our kernel (kernels.ptx): loaded once in each context when a stream of it is
 * attached, and launched. Loading is cold; the launch is warm.
 */
#include <stdio.h>
#include <stdlib.h>

#include "stream/cuda/cuda_int.h"
#include "stream/cuda/kernels_ptx.h" /* kernels_ptx: the text of kernels.ptx */
#include "util/error.h"
#include "util/log.h"

/*
 * A context that has our kernels, or why it has not. The memory of this struct is registered with
 * the driver, which forgets that when the context ends: so the driver knows whether a context is
 * the one that we loaded the kernels in, or another one that came to have the same handle.
 */
#define RECORD_BYTES 4096
struct record {
	struct record *next;
	CUcontext ctx;
	CUmodule module; /* NULL: it could not be loaded */
	CUfunction words;
	char text[256]; /* why there is none; "" when there is, or when nothing was tried */
};
_Static_assert(sizeof(struct record) <= RECORD_BYTES, "a record is one page");

/* Guards records, and is held while the driver loads: it calls nobody back. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct record *records;

/* The driver may put the work off until the first launch, which then may wait for all work of the
 * context, and that for us: so where it has a call that loads at once it is made. (A driver
 * without that call loads a kernel in cuModuleGetFunction.) */
static CUresult get_function(CUmodule module, const char *name, CUfunction *function)
{
	CUresult e = cuda_call.cuModuleGetFunction(function, module, name);

	if (e == CUDA_SUCCESS && cuda_call.cuFuncLoad != NULL)
		e = cuda_call.cuFuncLoad(*function);
	return e;
}

static void load(struct record *r)
{
	const char *call = "cuModuleLoadData";
	CUresult e;

	e = cuda_call.cuModuleLoadData(&r->module, kernels_ptx);
	if (e == CUDA_SUCCESS) {
		call = "cuModuleGetFunction";
		e = get_function(r->module, "stmpi_words", &r->words);
		if (e != CUDA_SUCCESS)
			(void)cuda_call.cuModuleUnload(r->module);
	}
	r->text[0] = '\0';
	if (e == CUDA_SUCCESS)
		return;
	r->module = NULL;
	r->words = NULL;
	(void)cuda_error_set(e, "kernel of this library", call);
	snprintf(r->text, sizeof(r->text), "%s", stmpi_error_text());
	stmpi_log(STMPI_LOG_INFO, "%s", r->text);
}

static struct record *find(CUcontext ctx)
{
	struct record *r = records;

	while (r != NULL && r->ctx != ctx)
		r = r->next;
	if (r != NULL)
		return r;
	r = aligned_alloc(RECORD_BYTES, RECORD_BYTES);
	if (r == NULL)
		return NULL;
	*r = (struct record){.next = records, .ctx = ctx};
	records = r;
	return r;
}

int cuda_kernels_get(CUcontext ctx, CUfunction *words)
{
	struct cuda_visit visit;
	struct record *r;
	CUresult e;
	int ret = 0;

	*words = NULL;
	e = cuda_enter(ctx, &visit);
	if (e != CUDA_SUCCESS)
		return cuda_error_set(e, "kernel of this library", "cuCtxPushCurrent");
	pthread_mutex_lock(&mutex);
	r = find(ctx);
	if (r == NULL) {
		ret = stmpi_error_set(STMPI_ENOMEM, "no memory for a context's kernels");
	} else {
		e = cuda_call.cuMemHostRegister(r, RECORD_BYTES, CU_MEMHOSTREGISTER_PORTABLE);
		if (e == CUDA_SUCCESS || (r->module == NULL && r->text[0] == '\0'))
			load(r);
		*words = r->words;
		if (r->words == NULL)
			ret = stmpi_error_set(STMPI_ENODEV, "%s", r->text);
	}
	pthread_mutex_unlock(&mutex);
	cuda_leave(&visit);
	return ret;
}

void cuda_kernels_fini(void)
{
	struct record *r = records, *next;
	struct cuda_visit visit;

	records = NULL;
	for (; r != NULL; r = next) {
		next = r->next;
		/* Where its context has gone, so have registration and module. */
		(void)cuda_enter(r->ctx, &visit);
		if (cuda_call.cuMemHostUnregister(r) == CUDA_SUCCESS && r->module != NULL)
			(void)cuda_call.cuModuleUnload(r->module);
		cuda_leave(&visit);
		free(r);
	}
}

/* ---- launches ---- */

/* As the kernel takes it: addresses of words are multiples of 8. */
struct cuda_word {
	uint64_t addr_and_wait, value;
};

CUresult cuda_kernels_words(CUfunction kernel, CUstream stream, const struct stmpi_memop *ops,
			    int n)
{
	struct cuda_word words[CUDA_WORDS_MAX];
	uint64_t count = (uint64_t)n;
	void *arguments[] = {&count, words};

	for (int i = 0; i < n; i++) {
		words[i].addr_and_wait =
			(uintptr_t)ops[i].addr | (ops[i].kind == STMPI_MEMOP_WAIT ? 1u : 0u);
		words[i].value = ops[i].value;
	}
	/* The driver copies all of it, also what the kernel does not look at. */
	for (int i = n; i < CUDA_WORDS_MAX; i++)
		words[i] = (struct cuda_word){0, 0};
	return cuda_call.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}
