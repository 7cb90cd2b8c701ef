/* SPDX-License-Identifier: BSD-3-Clause */
/* module.c: modules, of which only names are read, and kernels, which run as their twins in C
 * (cudasim_twin.h). */
#include <ctype.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link.h"
#include "sim.h"

static const char elf_magic[] = "\177ELF", fatbin_magic[] = "\x50\xed\x55\xba",
		  wrapper_magic[] = "\xb1\x43\x62\x46";

static bool starts_with(const void *image, const char *magic)
{
	return memcmp(image, magic, 4) == 0;
}

/* An image that is not PTX is opaque: its names are believed. */
CUresult module_load(struct context *ctx, const void *image, struct module **out)
{
	struct module *m = sim_alloc(sizeof(*m));

	m->ctx = ctx;
	m->is_opaque = !image || starts_with(image, elf_magic) ||
		       starts_with(image, fatbin_magic) || starts_with(image, wrapper_magic);
	m->is_text = !m->is_opaque && strstr(image, ".version");
	if (!m->is_opaque && !m->is_text) {
		free(m);
		return CUDA_ERROR_INVALID_IMAGE;
	}
	m->image = m->is_text ? strdup(image) : NULL;
	m->handle = handle_new(HANDLE_MODULE, m);
	m->next = ctx->modules;
	ctx->modules = m;
	*out = m;
	return CUDA_SUCCESS;
}

/* Kernels that are queued still point to the functions: those stay. */
void module_unload(struct module *m)
{
	struct module **at = &m->ctx->modules;

	while (*at && *at != m)
		at = &(*at)->next;
	if (*at)
		*at = m->next;
	for (struct function *f = m->functions; f; f = f->next)
		handle_drop(f->handle);
	for (struct variable *v = m->variables, *next; v; v = next) {
		next = v->next;
		memory_free(v->address);
		free(v->name);
		free(v);
	}
	handle_drop(m->handle);
	free((char *)m->image);
	free(m);
}

/* ---- names in PTX ---- */

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$';
}

/* The name as a whole word, in a statement that has the directive before it. */
static const char *find_in_ptx(const struct module *m, const char *directive, const char *name)
{
	const size_t n = strlen(name);

	for (const char *p = strstr(m->image, name); p; p = strstr(p + 1, name)) {
		const char *start = p;

		if ((p > m->image && is_name(p[-1])) || is_name(p[n]))
			continue;
		while (start > m->image && start[-1] != ';' && start[-1] != '}' && start[-1] != '{')
			start--;
		for (; start < p; start++)
			if (strncmp(start, directive, strlen(directive)) == 0)
				return p;
	}
	return NULL;
}

/* ".u64 name" or ".b8 name[16]" */
static size_t size_in_ptx(const struct module *m, const char *name)
{
	const char *at = find_in_ptx(m, ".global", name), *type;
	size_t count = 1;

	if (!at)
		at = find_in_ptx(m, ".const", name);
	if (!at)
		return 0;
	if (at[strlen(name)] == '[')
		count = strtoul(at + strlen(name) + 1, NULL, 10);
	for (type = at - 1; type > m->image && *type != '.'; type--)
		;
	return strtoul(type + 2, NULL, 10) / 8 * count;
}

/* ---- twins ---- */

enum {
	TWINS_MAX = 16
};
static void *libraries[TWINS_MAX];
static unsigned library_count;

/* CUDASIM_TWINS: paths with colons between them. */
static void open_twins(void)
{
	char *list = sim_config.twins ? strdup(sim_config.twins) : NULL, *rest = NULL;

	sim_config.twins = NULL;
	if (!list)
		return;
	for (char *p = strtok_r(list, ":", &rest); p && library_count < TWINS_MAX;
	     p = strtok_r(NULL, ":", &rest)) {
		libraries[library_count] = dlopen(p, RTLD_NOW | RTLD_GLOBAL);
		if (libraries[library_count])
			library_count++;
		else
			sim_say("--twins %s: %s", p, dlerror());
	}
	free(list);
}

static void *find_symbol(const char *prefix, const char *name, const char *suffix)
{
	char symbol[512];
	void *p = NULL;

	open_twins();
	snprintf(symbol, sizeof(symbol), "%s%s%s", prefix, name, suffix);
	for (unsigned i = 0; i < library_count && !p; i++)
		p = dlsym(libraries[i], symbol);
	return p ? p : dlsym(RTLD_DEFAULT, symbol);
}

/* The function's own name in _Z5saxpyifPfS_ and, the last of several, in _ZN5solve5saxpyEif. */
static bool own_name(const char *mangled, char *out, size_t bytes)
{
	const char *p = mangled + 2;
	bool is_nested = false;

	if (strncmp(mangled, "_Z", 2) != 0)
		return false;
	if (*p == 'N') {
		is_nested = true;
		p++;
	}
	out[0] = '\0';
	while (isdigit((unsigned char)*p)) {
		size_t n = strtoul(p, (char **)&p, 10);

		if (n >= bytes || n > strlen(p))
			return false;
		memcpy(out, p, n);
		out[n] = '\0';
		p += n;
		if (!is_nested)
			break;
	}
	return out[0] != '\0';
}

static void find_twin(struct function *f)
{
	char plain[256];
	const char *name = f->name;

	*(void **)&f->twin = find_symbol("twin_", name, "");
	if (!f->twin && own_name(name, plain, sizeof(plain))) {
		name = plain;
		*(void **)&f->twin = find_symbol("twin_", name, "");
	}
	if (!f->twin)
		return;
	f->sizes = find_symbol("twin_", name, "_sizes");
	if (!f->sizes) {
		sim_say("the twin of kernel %s has no twin_%s_sizes", f->name, name);
		f->twin = NULL;
		return;
	}
	for (f->argument_count = 0, f->argument_bytes = 0; f->sizes[f->argument_count];
	     f->argument_count++)
		f->argument_bytes += (f->sizes[f->argument_count] + 15) & ~(size_t)15;
}

CUresult module_function(struct module *m, const char *name, struct function **out)
{
	struct function *f = m->functions;

	while (f && strcmp(f->name, name) != 0)
		f = f->next;
	if (!f) {
		if (m->is_text && !find_in_ptx(m, ".entry", name))
			return CUDA_ERROR_NOT_FOUND;
		f = sim_alloc(sizeof(*f));
		f->module = m;
		f->name = strdup(name);
		f->handle = handle_new(HANDLE_FUNCTION, f);
		find_twin(f);
		f->next = m->functions;
		m->functions = f;
	}
	*out = f;
	return CUDA_SUCCESS;
}

/* bytes: 0 if only the image knows. */
CUresult module_variable(struct module *m, const char *name, size_t bytes, struct variable **out)
{
	struct variable *v = m->variables;
	CUresult e;

	while (v && strcmp(v->name, name) != 0)
		v = v->next;
	if (!v) {
		if (m->is_text)
			bytes = size_in_ptx(m, name);
		if (bytes == 0)
			return m->is_text ? CUDA_ERROR_NOT_FOUND
					  : sim_missing("cuModuleGetGlobal of a binary module");
		v = sim_alloc(sizeof(*v));
		v->bytes = bytes;
		e = memory_alloc(m->ctx, bytes, &v->address);
		if (e != CUDA_SUCCESS) {
			free(v);
			return e;
		}
		memset(memory_cpu(v->address), 0, bytes);
		v->name = strdup(name);
		v->next = m->variables;
		m->variables = v;
	}
	*out = v;
	return CUDA_SUCCESS;
}

/* ---- launches ---- */

static bool dimensions_are_valid(const unsigned grid[3], const unsigned block[3])
{
	const unsigned long threads = (unsigned long)block[0] * block[1] * block[2];

	return grid[0] && grid[1] && grid[2] && grid[1] <= 65535 && grid[2] <= 65535 &&
	       grid[0] <= 2147483647 && threads > 0 && threads <= 1024 && block[2] <= 64;
}

CUresult kernel_prepare(struct work *w, struct function *f, const unsigned grid[3],
			const unsigned block[3], unsigned shared_bytes, void **arguments,
			void **extra)
{
	char *to;

	if (!dimensions_are_valid(grid, block))
		return CUDA_ERROR_INVALID_VALUE;
	if (!f->twin) {
		sim_say("kernel %s has no twin: give a library with twin_%s by --twins", f->name,
			f->name);
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	if (extra && !arguments && f->argument_count)
		return sim_missing("cuLaunchKernel with extra");
	if (f->argument_count && !arguments)
		return CUDA_ERROR_INVALID_VALUE;
	*w = (struct work){.kind = WORK_KERNEL, .kernel.function = f};
	memcpy(w->kernel.launch.grid, grid, sizeof(w->kernel.launch.grid));
	memcpy(w->kernel.launch.block, block, sizeof(w->kernel.launch.block));
	w->kernel.launch.shared_bytes = shared_bytes;
	to = w->kernel.arguments = sim_alloc(f->argument_bytes);
	for (unsigned i = 0; i < f->argument_count; i++) {
		memcpy(to, arguments[i], f->sizes[i]);
		to += (f->sizes[i] + 15) & ~(size_t)15;
	}
	return CUDA_SUCCESS;
}

struct running {
	struct context *ctx;
	struct queue *queue;
	const char *name;
	struct pause pause;
	jmp_buf end;
};

static void *at(const struct cudasim_launch *launch, const void *device_pointer)
{
	struct running *r = launch->internal;
	void *p = memory_for_kernel(r->ctx, (uintptr_t)device_pointer);

	if (p)
		return p;
	context_fault(r->ctx, CUDA_ERROR_ILLEGAL_ADDRESS, r->name);
	longjmp(r->end, 1);
}

static int pause_kernel(const struct cudasim_launch *launch)
{
	struct running *r = launch->internal;

	return may_wait(&r->pause, r->ctx, r->queue, r->name, NULL);
}

void kernel_run(struct work *w, struct context *ctx, struct queue *q)
{
	const struct function *f = w->kernel.function;
	struct running r = {.ctx = ctx, .queue = q, .name = f->name};
	struct cudasim_launch launch = w->kernel.launch;
	void **arguments = sim_alloc((f->argument_count + 1) * sizeof(*arguments));
	char *from = w->kernel.arguments;

	launch.at = at;
	launch.pause = pause_kernel;
	launch.internal = &r;
	for (unsigned i = 0; i < f->argument_count; i++) {
		arguments[i] = from;
		from += (f->sizes[i] + 15) & ~(size_t)15;
	}
	if (setjmp(r.end) == 0)
		f->twin(&launch, arguments);
	free(arguments);
	atomic_fetch_add(&calls_kernels, 1);
}

/* ---- for libcudart ---- */

__attribute__((visibility("default"))) int cudasim_module_opaque(void **module)
{
	struct context *ctx = context_current();
	struct module *m;
	CUresult e;

	sim_lock();
	e = ctx ? module_load(ctx, NULL, &m) : CUDA_ERROR_INVALID_CONTEXT;
	if (e == CUDA_SUCCESS)
		*module = m->handle;
	sim_unlock();
	return (int)e;
}

__attribute__((visibility("default"))) int cudasim_module_variable(void *module, const char *name,
								   size_t bytes, void **address)
{
	struct variable *v;
	struct module *m;
	CUresult e;

	sim_lock();
	m = handle_get(HANDLE_MODULE, module);
	e = m ? module_variable(m, name, bytes, &v) : CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS)
		*address = (void *)v->address;
	sim_unlock();
	return (int)e;
}
