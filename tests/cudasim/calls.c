/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.c: every call passes here: counted, allowed or not, failed when --fail says so; and the
 * table of names from which cuGetProcAddress answers. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "entry.h"
#include "link.h"

static atomic_ulong counts[CALL_COUNT], counts_by_runtime[CALL_COUNT];
static unsigned long contexts_made[DEVICES_MAX];
atomic_ulong calls_host_functions, calls_kernels, calls_undefined;
static atomic_ulong calls_missing;

/* Calls by the names that threads have: who makes them, a program's thread or a library's own. */
struct thread_calls {
	char name[16];
	atomic_ulong count;
	struct thread_calls *next;
};
static struct thread_calls *threads; /* thread_lock */
static pthread_mutex_t thread_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct thread_calls *my_thread;

static struct cudasim_counter *runtime_counters;
static pthread_mutex_t runtime_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int runtime_depth;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_initialized, is_forked;

void sim_lock(void)
{
	pthread_mutex_lock(&lock);
}

void sim_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void *sim_alloc(size_t bytes)
{
	void *p = calloc(1, bytes ? bytes : 1);

	if (!p) {
		sim_say("the simulator itself is out of memory");
		_Exit(1);
	}
	return p;
}

/* Room for one more; grows at powers of two. */
void *sim_grow(void *array, unsigned count, size_t element_bytes)
{
	if (count & (count - 1))
		return array;
	array = realloc(array, (count ? count * 2 : 1) * element_bytes);
	if (!array) {
		sim_say("the simulator itself is out of memory");
		_Exit(1);
	}
	return array;
}

static void say(const char *what, const char *format, va_list list)
{
	char text[600];
	int n = snprintf(text, sizeof(text), "cudasim: simulated: %s", what);

	vsnprintf(text + n, sizeof(text) - (size_t)n, format, list);
	fprintf(stderr, "%s\n", text);
}

void sim_say(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	say("", format, list);
	va_end(list);
}

void sim_undefined(const char *format, ...)
{
	va_list list;

	atomic_fetch_add(&calls_undefined, 1);
	va_start(list, format);
	say("undefined on a real device: ", format, list);
	va_end(list);
}

/* ---- entry ---- */

static CUresult error_for(const char *name, unsigned long wanted)
{
	static const char *const makers[] = {"Alloc",	"Malloc", "Create", "Register",
					     "Reserve", "Retain", "Map"};

	if (wanted)
		return (CUresult)wanted;
	for (unsigned i = 0; i < sizeof(makers) / sizeof(makers[0]); i++)
		if (strstr(name, makers[i]))
			return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_ERROR_UNKNOWN;
}

/* --fail: by the name in the header or by the symbol. */
static CUresult injected(const char *base, const char *symbol, unsigned long nth)
{
	for (unsigned i = 0; i < sim_config.failure_count; i++) {
		const struct failure *f = &sim_config.failures[i];

		if (f->nth != nth || (strcmp(f->call, base) != 0 && strcmp(f->call, symbol) != 0))
			continue;
		sim_say("%s: call %lu fails, as --fail asked", symbol, nth);
		return error_for(symbol, f->error);
	}
	return CUDA_SUCCESS;
}

static struct thread_calls *find_thread(const char *name)
{
	struct thread_calls *t = threads;

	while (t && strcmp(t->name, name) != 0)
		t = t->next;
	if (t)
		return t;
	t = sim_alloc(sizeof(*t));
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->next = threads;
	return threads = t;
}

/* The name is asked for once: libraries name their threads as these begin. */
static void count_thread(void)
{
	char name[16] = "";

	if (!my_thread) {
		prctl(PR_GET_NAME, name);
		pthread_mutex_lock(&thread_lock);
		my_thread = find_thread(name);
		pthread_mutex_unlock(&thread_lock);
	}
	atomic_fetch_add_explicit(&my_thread->count, 1, memory_order_relaxed);
}

/* The nth is counted over all versions of a call. */
static CUresult count_call(int call)
{
	unsigned long n = 0;

	count_thread();
	atomic_fetch_add_explicit(runtime_depth ? &counts_by_runtime[call] : &counts[call], 1,
				  memory_order_relaxed);
	if (sim_config.failure_count == 0)
		return CUDA_SUCCESS;
	for (int i = 0; i < CALL_COUNT; i++)
		if (strcmp(calls[i].base, calls[call].base) == 0)
			n += atomic_load(&counts[i]) + atomic_load(&counts_by_runtime[i]);
	return injected(calls[call].base, calls[call].symbol, n);
}

static CUresult refuse_callback(const char *name)
{
	if (!sim_in_callback)
		return CUDA_SUCCESS;
	sim_undefined("%s was called from a host function", name);
	return CUDA_ERROR_NOT_PERMITTED;
}

struct entry sim_enter(int call, int needs)
{
	struct entry e = {refuse_callback(calls[call].symbol), false};
	struct context *ctx;
	CUresult fail;

	config_read();
	fail = count_call(call);
	if (e.error == CUDA_SUCCESS)
		e.error = fail;
	if (e.error == CUDA_SUCCESS && needs != NEEDS_NOTHING &&
	    (!atomic_load(&is_initialized) || atomic_load(&is_forked)))
		e.error = CUDA_ERROR_NOT_INITIALIZED;
	if (e.error != CUDA_SUCCESS)
		return e;
	sim_lock();
	e.is_locked = true;
	if (needs != NEEDS_CONTEXT)
		return e;
	ctx = context_current();
	if (!ctx)
		e.error = CUDA_ERROR_INVALID_CONTEXT;
	else if (atomic_load(&ctx->is_dead))
		e.error = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	else
		e.error = (CUresult)atomic_load(&ctx->error);
	return e;
}

void sim_leave(struct entry *e)
{
	if (e->is_locked)
		sim_unlock();
}

CUresult sim_missing(const char *name)
{
	atomic_fetch_add(&calls_missing, 1);
	sim_say("%s is not simulated: the call fails", name);
	return CUDA_ERROR_NOT_SUPPORTED;
}

__attribute__((visibility("default"))) int cudasim_missing(const char *name)
{
	return (int)sim_missing(name);
}

static void after_fork(void)
{
	/* The documentation: CUDA cannot be used in a child that was forked after it was
	 * initialised. */
	if (atomic_load(&is_initialized))
		atomic_store(&is_forked, true);
	pthread_mutex_init(&lock, NULL);
}

void calls_init(void)
{
	static bool is_first = true;

	if (is_first)
		pthread_atfork(NULL, NULL, after_fork);
	is_first = false;
	atomic_store(&is_initialized, true);
}

void calls_count_context(int device)
{
	contexts_made[device]++;
}

/* ---- the runtime ---- */

__attribute__((visibility("default"))) int cudasim_runtime_enter(struct cudasim_counter *c)
{
	CUresult error = refuse_callback(c->name);
	unsigned long n;

	config_read();
	runtime_depth++;
	pthread_mutex_lock(&runtime_lock);
	n = ++c->count;
	if (!c->is_listed) {
		c->is_listed = true;
		c->next = runtime_counters;
		runtime_counters = c;
	}
	pthread_mutex_unlock(&runtime_lock);
	return error != CUDA_SUCCESS ? (int)error : (int)injected(c->name, c->name, n);
}

__attribute__((visibility("default"))) void cudasim_runtime_leave(void)
{
	runtime_depth--;
}

__attribute__((visibility("default"))) void cudasim_say(const char *text)
{
	sim_say("%s", text);
}

/* ---- cuGetProcAddress ---- */

/* A call that the header has and the simulator lacks is found, and fails with its name when it is
 * called. */
static void *find_missing(const char *base)
{
	size_t n = strlen(base);
	void *found = NULL;

	for (const struct missing *m = missing_calls; m->name; m++)
		if (strncmp(m->name, base, n) == 0 &&
		    (m->name[n] == '\0' || strncmp(m->name + n, "_v", 2) == 0))
			found = m->fn;
	return found;
}

/* The newer of the two that the version has; of the same version, the one for the thread's own
 * stream. */
static const struct call *better(const struct call *best, const struct call *c, int version)
{
	if (c->version > version)
		return best;
	if (!best || c->version > best->version ||
	    (c->version == best->version && c->is_per_thread > best->is_per_thread))
		return c;
	return best;
}

CUresult calls_find(const char *base, int version, bool per_thread, void **fn,
		    CUdriverProcAddressQueryResult *status)
{
	const struct call *best = NULL;
	bool is_known = false;

	for (const struct call *c = calls; c < calls + CALL_COUNT; c++) {
		if (strcmp(c->base, base) != 0 || (c->is_per_thread && !per_thread))
			continue;
		is_known = true;
		best = better(best, c, version);
	}
	for (const struct call *c = call_aliases; c->base; c++)
		if (strcmp(c->base, base) == 0) {
			is_known = true;
			best = better(best, c, version);
		}
	*fn = best ? best->fn : is_known ? NULL : find_missing(base);
	if (status)
		*status = *fn	     ? CU_GET_PROC_ADDRESS_SUCCESS
			  : is_known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				     : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

/* ---- --counts ---- */

static void write_table(FILE *f, const char *title, const atomic_ulong *table)
{
	const char *comma = "";

	fprintf(f, "  \"%s\": {", title);
	for (int i = 0; i < CALL_COUNT; i++) {
		unsigned long n = atomic_load(&table[i]);

		if (n == 0)
			continue;
		fprintf(f, "%s\n    \"%s\": %lu", comma, calls[i].symbol, n);
		comma = ",";
	}
	fprintf(f, "\n  },\n");
}

static void write_counts(FILE *f)
{
	const char *comma = "";

	fprintf(f, "{\n  \"device\": \"simulated\",\n  \"pid\": %ld,\n", (long)getpid());
	write_table(f, "driver", counts);
	write_table(f, "driver_by_runtime", counts_by_runtime);
	fprintf(f, "  \"runtime\": {");
	pthread_mutex_lock(&runtime_lock);
	for (const struct cudasim_counter *c = runtime_counters; c; c = c->next) {
		fprintf(f, "%s\n    \"%s\": %lu", comma, c->name, c->count);
		comma = ",";
	}
	pthread_mutex_unlock(&runtime_lock);
	fprintf(f, "\n  },\n  \"threads\": {");
	comma = "";
	pthread_mutex_lock(&thread_lock);
	for (const struct thread_calls *t = threads; t; t = t->next) {
		fprintf(f, "%s\n    \"%s\": %lu", comma, t->name, atomic_load(&t->count));
		comma = ",";
	}
	pthread_mutex_unlock(&thread_lock);
	fprintf(f, "\n  },\n  \"contexts\": [");
	for (unsigned long i = 0; i < sim_config.devices; i++)
		fprintf(f, "%s%lu", i ? ", " : "", contexts_made[i]);
	fprintf(f,
		"],\n  \"host_functions\": %lu,\n  \"kernels\": %lu,\n  \"missing\": %lu,\n  "
		"\"undefined\": %lu\n}\n",
		atomic_load(&calls_host_functions), atomic_load(&calls_kernels),
		atomic_load(&calls_missing), atomic_load(&calls_undefined));
}

/* %p in FILE is the process. Without it, the program that simrun became writes FILE, and processes
 * beside it, ranks above all, FILE.PID. */
static void counts_path(char *path, size_t bytes)
{
	const char *main_pid = getenv("CUDASIM_PID"), *size = getenv("PMI_SIZE"),
		   *mark = strstr(sim_config.counts, "%p");
	bool is_rank = size && strtol(size, NULL, 10) > 1;

	if (mark)
		snprintf(path, bytes, "%.*s%ld%s", (int)(mark - sim_config.counts),
			 sim_config.counts, (long)getpid(), mark + 2);
	else if (!is_rank && main_pid && strtol(main_pid, NULL, 10) == (long)getpid())
		snprintf(path, bytes, "%s", sim_config.counts);
	else
		snprintf(path, bytes, "%s.%ld", sim_config.counts, (long)getpid());
}

__attribute__((destructor)) static void end(void)
{
	char path[4096];
	FILE *f;

	config_read();
	if (!sim_config.counts || atomic_load(&is_forked))
		return;
	counts_path(path, sizeof(path));
	f = fopen(path, "w");
	if (!f) {
		sim_say("--counts %s: %s", path, strerror(errno));
		return;
	}
	write_counts(f);
	if (fclose(f) != 0)
		sim_say("--counts %s: %s", path, strerror(errno));
}
