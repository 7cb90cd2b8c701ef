/* SPDX-License-Identifier: BSD-3-Clause */
/* callback.c: the one thread of the process in which host functions run, whatever their stream: one
 * that blocks holds up all others. No CUDA call may be made from it (sim_enter looks at
 * sim_in_callback). */
#include <stdlib.h>

#include "sim.h"

_Thread_local bool sim_in_callback;

struct request {
	struct request *next;
	void (*fn)(void *arg);
	void *arg;
	bool is_done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct request *first, **last = &first;
static bool is_started;

static void *run(void *unused)
{
	struct request *r;

	sim_in_callback = true;
	pthread_mutex_lock(&lock);
	for (;;) {
		while (!first)
			pthread_cond_wait(&changed, &lock);
		r = first;
		first = r->next;
		if (!first)
			last = &first;
		pthread_mutex_unlock(&lock);
		r->fn(r->arg);
		pthread_mutex_lock(&lock);
		r->is_done = true;
		pthread_cond_broadcast(&changed);
	}
	return unused;
}

/* Called by a queue's thread, which waits for the end. */
void callback_run(void (*fn)(void *arg), void *arg)
{
	struct request r = {NULL, fn, arg, false};
	pthread_t thread;

	pthread_mutex_lock(&lock);
	if (!is_started) {
		if (pthread_create(&thread, NULL, run, NULL) != 0) {
			sim_say("no thread for host functions");
			_Exit(1);
		}
		pthread_detach(thread);
		is_started = true;
	}
	*last = &r;
	last = &r.next;
	pthread_cond_broadcast(&changed);
	while (!r.is_done)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&calls_host_functions, 1);
}
