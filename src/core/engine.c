/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.c: the one engine of the process: start, drain, end. Cold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/core_int.h"
#include "util/backoff.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/log.h"
#include "util/params.h"

#define E (&stmpi_engine)

struct stmpi_engine stmpi_engine;

/* Guards init and fini against each other; the engine is a singleton, as MPI is. */
static pthread_mutex_t init_mutex = PTHREAD_MUTEX_INITIALIZER;

static uint64_t hash_text(uint64_t h, const char *text)
{
	for (; *text != '\0'; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3u; /* FNV-1a */
	return h;
}

/* A number that is equal for processes that can share memory: same boot, same pid namespace. */
static uint64_t find_node(void)
{
	const char *name = stmpi_param_string(STMPI_PARAM_NODE);
	uint64_t h = 0xcbf29ce484222325u;
	char text[256];
	ssize_t n;
	FILE *f;

	if (name[0] != '\0')
		return hash_text(h, name);
	if (gethostname(text, sizeof(text) - 1) == 0) {
		text[sizeof(text) - 1] = '\0';
		h = hash_text(h, text);
	}
	f = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (f != NULL) {
		if (fgets(text, sizeof(text), f) != NULL)
			h = hash_text(h, text);
		fclose(f);
	}
	n = readlink("/proc/self/ns/pid", text, sizeof(text) - 1);
	if (n > 0) {
		text[n] = '\0';
		h = hash_text(h, text);
	}
	return h;
}

static int set_up(const struct stmpi_engine_attr *attr)
{
	struct stmpi_net_attr net;
	struct stmpi_result good = {STMPI_PROC_NULL, STMPI_ANY_TAG, 0, 0};
	int64_t backend = stmpi_param_choice(STMPI_PARAM_NET_BACKEND);
	int ret;

	ret = stmpi_params_check();
	if (ret != 0)
		return ret;
	E->attr = *attr;
	E->start_ns = stmpi_clock_ns();
	if (getrandom(&E->uid, sizeof(E->uid), 0) != (ssize_t)sizeof(E->uid))
		E->uid = E->start_ns ^ (uint64_t)getpid() << 40;
	E->node = find_node();
	E->credits = (uint32_t)stmpi_param_int(STMPI_PARAM_EAGER_CREDITS);
	E->watchdog_ticks = (uint32_t)(stmpi_param_int(STMPI_PARAM_WATCHDOG) * 100);
	E->forces_shm = backend == STMPI_NET_SHM;
	E->forces_ofi =
		backend == STMPI_NET_OFI || stmpi_param_string(STMPI_PARAM_OFI_PROVIDER)[0] != '\0';
	if (E->forces_shm && E->forces_ofi)
		return stmpi_error_set(
			STMPI_ECONFIG,
			"STMPI_NET_BACKEND=shm and STMPI_OFI_PROVIDER=%s exclude each other",
			stmpi_param_string(STMPI_PARAM_OFI_PROVIDER));
	E->upcalls = (struct stmpi_net_upcalls){NULL, stmpi_proto_packet, stmpi_proc_failed};
	atomic_store(&E->next_ctx, 1);
	E->attr.format_status(&good, E->image_send);
	pthread_mutex_init(&E->mutex, NULL);
	ret = stmpi_flags_init(&E->flags);
	if (ret != 0)
		return ret;
	net = (struct stmpi_net_attr){1, &E->upcalls, &E->flags, E->uid};
	if (!E->forces_ofi) {
		ret = stmpi_net_shm_ops.open(&net, &E->shm);
		if (ret != 0)
			goto err_flags;
	}
	ret = stmpi_dump_install();
	if (ret == 0)
		ret = stmpi_progress_start();
	if (ret != 0)
		goto err_shm;
	return 0;
err_shm:
	stmpi_net_shm_ops.close(E->shm);
	E->shm = NULL;
err_flags:
	stmpi_flags_fini(&E->flags);
	return ret;
}

int stmpi_engine_init(const struct stmpi_engine_attr *attr)
{
	int ret = 0;

	pthread_mutex_lock(&init_mutex);
	if (!atomic_load(&E->is_up)) {
		ret = set_up(attr);
		if (ret == 0)
			atomic_store(&E->is_up, 1);
	}
	pthread_mutex_unlock(&init_mutex);
	return ret;
}

int stmpi_engine_is_up(void)
{
	return atomic_load_explicit(&E->is_up,
				    memory_order_acquire); /* partner: stmpi_engine_init */
}

struct census {
	uint64_t pending;
	uint64_t failed;
};

static void count_pending(struct stmpi_op *op, void *arg)
{
	struct census *c = arg;

	if (!stmpi_op_is_done(op))
		c->pending++;
}

/* Everything ended, every stream past its last entry of ours, nothing left in a rail? Under the
 * token. */
static int is_quiet(void)
{
	struct stmpi_stream *s;
	struct census c = {0, 0};

	for (s = atomic_load(&E->streams); s != NULL; s = s->next) {
		if (!atomic_load(&s->is_open))
			continue;
		/* Not the mutex: it is taken before the token. The last ticket reached is what
		 * counts, of those that the stream took. */
		if (stmpi_word_load(s->doorbell) != atomic_load(&s->rung))
			return 0;
	}
	if (E->busy != NULL || E->reads != NULL || E->orphans != NULL)
		return 0;
	if (E->shm != NULL && E->shm->ops->is_busy(E->shm))
		return 0;
	if (E->ofi != NULL && E->ofi->ops->is_busy(E->ofi))
		return 0;
	stmpi_op_for_each(count_pending, &c);
	return c.pending == 0;
}

int stmpi_engine_drain(void)
{
	struct stmpi_backoff b = {0, 0, 0};
	uint64_t limit = (uint64_t)stmpi_param_int(STMPI_PARAM_WATCHDOG) * 1000000000u;
	uint64_t failed = E->stats.failed, since = stmpi_clock_ns(), moved = 0;
	int quiet = 0, events;

	while (!quiet) {
		stmpi_token_lock();
		events = stmpi_progress_poll_locked();
		quiet = events == 0 && is_quiet();
		moved = events > 0 ? stmpi_clock_ns() : moved;
		stmpi_token_release();
		if (quiet)
			break;
		if (events > 0)
			stmpi_backoff_reset(&b);
		else if (stmpi_backoff_pause(&b))
			stmpi_progress_hook.idle();
		if (moved > since)
			since = moved;
		if (limit != 0 && stmpi_clock_ns() - since > limit) {
			stmpi_log(STMPI_LOG_ERROR,
				  "watchdog: nothing has moved for %lld s at the end, but "
				  "operations are pending; they are given up",
				  (long long)stmpi_param_int(STMPI_PARAM_WATCHDOG));
			stmpi_token_lock();
			stmpi_engine_dump(stderr);
			stmpi_token_release();
			return stmpi_error_set(STMPI_ETIMEDOUT,
					       "operations were still pending at the end");
		}
	}
	if (E->stats.failed != failed)
		return stmpi_error_set(STMPI_ETIMEDOUT,
				       "operations that were pending at the end failed");
	return 0;
}

/* A stream that still has entries of ours keeps reading our memory: then leave it all in place. */
static int is_in_use(void)
{
	struct stmpi_stream *s;

	for (s = atomic_load(&E->streams); s != NULL; s = s->next) {
		if (stmpi_word_load(s->doorbell) != atomic_load(&s->rung))
			return 1;
	}
	return 0;
}

/* Operations that nobody gave up or waited for keep their registration until now. */
static void drop_registration(struct stmpi_op *op, void *arg)
{
	(void)arg;
	if (op->mr != NULL)
		op->proc->rail->ops->dereg(op->proc->rail, op->mr);
	op->mr = NULL;
}

/* Never freed: a worker may be about to tell of a doorbell that it wrote before all was quiet. */
static struct stmpi_stream *ended_streams;

static void end_streams(void)
{
	struct stmpi_stream *s = atomic_load(&E->streams), *next;

	for (; s != NULL; s = next) {
		next = s->next;
		if (s->ops != NULL)
			s->ops->detach(s->port);
		s->ops = NULL;
		/* Retirements that no later doorbell write started run here, cancelled, and free
		 * their operations. */
		stmpi_trigger_destroy(s->trigger);
		stmpi_op_pool_fini(&s->pool);
		s->next = ended_streams;
		ended_streams = s;
	}
}

/* After the streams and the rails: what the devices knew of our memory, and the packets. */
static void end_stages(void)
{
	for (int i = 0; stmpi_stream_backends[i] != NULL; i++)
		stmpi_stream_backends[i]->fini();
	for (struct stmpi_stream *s = ended_streams; s != NULL; s = s->next)
		stmpi_stage_fini(s);
}

void stmpi_engine_fini(void)
{
	int leave;

	pthread_mutex_lock(&init_mutex);
	if (!atomic_load(&E->is_up))
		goto out;
	atomic_store(&E->is_up, 0);
	stmpi_progress_stop();
	if (stmpi_param_choice(STMPI_PARAM_STATS))
		stmpi_dump_stats(stderr);
	leave = is_in_use();
	stmpi_token_lock();
	if (leave)
		goto out; /* the token stays taken: late doorbells find it held and do nothing */
	stmpi_op_for_each(drop_registration, NULL);
	end_streams(); /* first: what is armed in a rail is drained */
	stmpi_net_shm_ops.close(E->shm);
	stmpi_net_ofi_ops.close(E->ofi);
	stmpi_proto_fini();
	stmpi_proc_free_all();
	stmpi_op_pool_fini(&E->pool);
	end_stages();
	stmpi_flags_fini(&E->flags);
	free(E->ctx_used);
	pthread_mutex_destroy(&E->mutex);
	/* All but the token, which comes first and is given back last: late callers find an engine
	 * that is down. */
	memset((char *)E + offsetof(struct stmpi_engine, shm), 0,
	       sizeof(*E) - offsetof(struct stmpi_engine, shm));
	stmpi_token_release();
out:
	pthread_mutex_unlock(&init_mutex);
}
