/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c: the host backend: public streams and events, and the table of operations for the core. */
#include "stream/host/host.h"

#include <stdlib.h>
#include <string.h>

#include "stream/host/host_int.h"
#include "util/error.h"

/* Looks of a synchronising thread before it sleeps: short work ends sooner than a sleep begins. */
#define SYNC_LOOKS 300u

static int bad_stream(const char *call, stmpi_host_stream_t stream)
{
	return stmpi_error_set(STMPI_EINVAL, "%s: stream %p is not a live stream", call,
			       (void *)stream);
}

static int bad_event(const char *call, stmpi_host_event_t event)
{
	return stmpi_error_set(STMPI_EINVAL, "%s: event %p is not a live event", call,
			       (void *)event);
}

/* ---- references ---- */

struct stmpi_host_stream *host_stream_get(stmpi_host_stream_t handle)
{
	return host_handle_is_live(handle, HOST_STREAM, offsetof(struct stmpi_host_stream, refs))
		       ? handle
		       : NULL;
}

void host_stream_put(struct stmpi_host_stream *stream)
{
	struct host_entry e = {.kind = HOST_EXIT};

	/* Acquire-release: the last one sees all use of the others. */
	if (atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) != 1)
		return;
	/* Behind all queued work. Without memory for the entry the worker stays, asleep. */
	(void)host_queue(stream, &e, 1);
}

struct stmpi_host_event *host_event_get(stmpi_host_event_t handle)
{
	return host_handle_is_live(handle, HOST_EVENT, offsetof(struct stmpi_host_event, refs))
		       ? handle
		       : NULL;
}

void host_event_put(struct stmpi_host_event *event)
{
	if (atomic_fetch_sub_explicit(&event->refs, 1, memory_order_acq_rel) != 1)
		return;
	host_mark_put(event->mark);
	pthread_mutex_destroy(&event->mutex);
	free(event);
}

/* ---- queueing ---- */

static int reserve(struct stmpi_host_stream *s, const struct host_entry *entries, int n)
{
	struct host_entry *slot;

	for (int i = 0; i < n; i++) {
		slot = stmpi_spscq_reserve(&s->q);
		if (stmpi_unlikely(slot == NULL)) {
			stmpi_spscq_unreserve(&s->q, (uint32_t)i);
			return stmpi_error_set(STMPI_ENOMEM, "no memory for a stream entry");
		}
		*slot = entries[i];
	}
	return 0;
}

/* Make n reserved entries visible. Under the mutex. */
static void publish(struct stmpi_host_stream *s, int n)
{
	/* Before the entries are visible, so that `done` never exceeds it. One writer; partner:
	 * query. */
	atomic_store_explicit(&s->queued,
			      atomic_load_explicit(&s->queued, memory_order_relaxed) + (uint64_t)n,
			      memory_order_release);
	stmpi_spscq_publish(&s->q, (uint32_t)n);
	host_worker_wake(s);
}

int host_queue(struct stmpi_host_stream *s, const struct host_entry *entries, int n)
{
	int ret;

	pthread_mutex_lock(&s->mutex);
	ret = reserve(s, entries, n);
	if (ret == 0)
		publish(s, n);
	pthread_mutex_unlock(&s->mutex);
	return ret;
}

/* Queue one entry on a handle. */
static int queue_on(const char *call, stmpi_host_stream_t handle, struct host_entry e)
{
	struct stmpi_host_stream *s = host_stream_get(handle);
	int ret;

	if (s == NULL)
		return bad_stream(call, handle);
	ret = host_queue(s, &e, 1);
	host_stream_put(s);
	return ret;
}

/* ---- public: streams ---- */

int stmpi_host_stream_create(stmpi_host_stream_t *stream)
{
	struct stmpi_host_stream *s;
	int ret;

	if (stream == NULL)
		return stmpi_error_set(STMPI_EINVAL, "stmpi_host_stream_create: stream is NULL");
	if (posix_memalign((void **)&s, STMPI_CACHE_LINE, sizeof(*s)) != 0)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a stream");
	memset(s, 0, sizeof(*s));
	pthread_mutex_init(&s->mutex, NULL);
	atomic_init(&s->refs, 1);
	ret = stmpi_spscq_init(&s->q, sizeof(struct host_entry));
	if (ret != 0)
		goto err_free;
	ret = host_handle_add(s, HOST_STREAM);
	if (ret != 0)
		goto err_queue;
	ret = host_worker_start(s);
	if (ret != 0)
		goto err_handle;
	*stream = s;
	return 0;
err_handle:
	host_handle_remove(s, HOST_STREAM);
err_queue:
	stmpi_spscq_fini(&s->q);
err_free:
	pthread_mutex_destroy(&s->mutex);
	free(s);
	return ret;
}

int stmpi_host_stream_destroy(stmpi_host_stream_t stream)
{
	if (!host_handle_remove(stream, HOST_STREAM))
		return bad_stream("stmpi_host_stream_destroy", stream);
	host_stream_put(stream);
	return 0;
}

int stmpi_host_stream_launch(stmpi_host_stream_t stream, void (*fn)(void *arg), void *arg)
{
	if (fn == NULL)
		return stmpi_error_set(STMPI_EINVAL, "stmpi_host_stream_launch: fn is NULL");
	return queue_on("stmpi_host_stream_launch", stream,
			(struct host_entry){.kind = HOST_LAUNCH, .fn = fn, .c = arg});
}

static int check_word(const char *call, const uint64_t *addr)
{
	if (addr == NULL || (uintptr_t)addr % sizeof(*addr) != 0)
		return stmpi_error_set(STMPI_EINVAL, "%s: addr %p is NULL or not 8-byte aligned",
				       call, (const void *)addr);
	return 0;
}

int stmpi_host_stream_write_value64(stmpi_host_stream_t stream, uint64_t *addr, uint64_t value)
{
	int ret = check_word("stmpi_host_stream_write_value64", addr);

	if (ret != 0)
		return ret;
	return queue_on("stmpi_host_stream_write_value64", stream,
			(struct host_entry){.kind = HOST_WRITE, .a = addr, .b = value});
}

int stmpi_host_stream_wait_value64(stmpi_host_stream_t stream, const uint64_t *addr, uint64_t value)
{
	int ret = check_word("stmpi_host_stream_wait_value64", addr);

	if (ret != 0)
		return ret;
	return queue_on(
		"stmpi_host_stream_wait_value64", stream,
		(struct host_entry){.kind = HOST_WAIT, .a = (void *)(uintptr_t)addr, .b = value});
}

int stmpi_host_stream_memcpy_async(stmpi_host_stream_t stream, void *dst, const void *src,
				   size_t bytes)
{
	if (bytes > 0 && (dst == NULL || src == NULL))
		return stmpi_error_set(STMPI_EINVAL,
				       "stmpi_host_stream_memcpy_async: %s is NULL with %zu bytes",
				       dst == NULL ? "dst" : "src", bytes);
	return queue_on("stmpi_host_stream_memcpy_async", stream,
			(struct host_entry){.kind = HOST_COPY, .a = dst, .b = bytes, .c = src});
}

/* The partner of both loads is the release store after each entry (done) and in publish (queued).
 */
static int has_done(struct stmpi_host_stream *s, uint64_t target)
{
	return (int64_t)(atomic_load_explicit(&s->done, memory_order_acquire) - target) >= 0;
}

static int query(struct stmpi_host_stream *s)
{
	return has_done(s, atomic_load_explicit(&s->queued, memory_order_acquire)) ? 0 : 1;
}

int stmpi_host_stream_query(stmpi_host_stream_t stream)
{
	struct stmpi_host_stream *s = host_stream_get(stream);
	int ret;

	if (s == NULL)
		return bad_stream("stmpi_host_stream_query", stream);
	ret = query(s);
	host_stream_put(s);
	return ret;
}

int stmpi_host_stream_synchronize(stmpi_host_stream_t stream)
{
	struct stmpi_host_stream *s = host_stream_get(stream);
	_Atomic uint32_t word = 0;
	struct host_entry e = {.kind = HOST_NOTIFY, .a = &word};
	uint64_t target;
	int ret = 0;

	if (s == NULL)
		return bad_stream("stmpi_host_stream_synchronize", stream);
	if (pthread_equal(pthread_self(), s->worker)) {
		ret = stmpi_error_set(
			STMPI_EINVAL,
			"stmpi_host_stream_synchronize: called from the stream itself");
		goto out;
	}
	target = atomic_load_explicit(&s->queued, memory_order_acquire);
	for (uint32_t i = 0; i < SYNC_LOOKS; i++) {
		if (has_done(s, target))
			goto out;
		stmpi_cpu_relax();
	}
	ret = host_queue(s, &e, 1);
	if (ret == 0)
		host_notify_wait(&word);
out:
	host_stream_put(s);
	return ret;
}

/* ---- public: events ---- */

int stmpi_host_event_create(stmpi_host_event_t *event)
{
	struct stmpi_host_event *e;
	int ret;

	if (event == NULL)
		return stmpi_error_set(STMPI_EINVAL, "stmpi_host_event_create: event is NULL");
	e = calloc(1, sizeof(*e));
	if (e == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for an event");
	atomic_init(&e->refs, 1);
	pthread_mutex_init(&e->mutex, NULL);
	ret = host_handle_add(e, HOST_EVENT);
	if (ret != 0) {
		pthread_mutex_destroy(&e->mutex);
		free(e);
		return ret;
	}
	*event = e;
	return 0;
}

int stmpi_host_event_destroy(stmpi_host_event_t event)
{
	if (!host_handle_remove(event, HOST_EVENT))
		return bad_event("stmpi_host_event_destroy", event);
	host_event_put(event);
	return 0;
}

/* The newest mark with a reference of its own; NULL when never recorded. */
static struct host_mark *newest_mark(struct stmpi_host_event *e)
{
	struct host_mark *m;

	pthread_mutex_lock(&e->mutex);
	m = e->mark;
	if (m != NULL)
		atomic_fetch_add_explicit(&m->refs, 1,
					  memory_order_relaxed); /* the event has one */
	pthread_mutex_unlock(&e->mutex);
	return m;
}

static int record_on(struct stmpi_host_event *e, stmpi_host_stream_t stream)
{
	struct host_entry entry = {.kind = HOST_RECORD};
	struct host_mark *m = calloc(1, sizeof(*m)), *old;
	int ret;

	if (m == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory to record an event");
	atomic_init(&m->refs, 2); /* the event's and the entry's */
	entry.a = m;
	/* Under the mutex, so that the newest mark is the one queued last. */
	pthread_mutex_lock(&e->mutex);
	ret = queue_on("stmpi_host_event_record", stream, entry);
	if (ret == 0) {
		old = e->mark;
		e->mark = m;
	} else {
		old = m;
		atomic_store(&m->refs, 1);
	}
	pthread_mutex_unlock(&e->mutex);
	host_mark_put(old);
	return ret;
}

int stmpi_host_event_record(stmpi_host_event_t event, stmpi_host_stream_t stream)
{
	struct stmpi_host_event *e = host_event_get(event);
	int ret;

	if (e == NULL)
		return bad_event("stmpi_host_event_record", event);
	ret = record_on(e, stream);
	host_event_put(e);
	return ret;
}

int stmpi_host_event_query(stmpi_host_event_t event)
{
	struct stmpi_host_event *e = host_event_get(event);
	struct host_mark *m;
	int ret;

	if (e == NULL)
		return bad_event("stmpi_host_event_query", event);
	m = newest_mark(e);
	ret = m != NULL && !stmpi_word_reached(&m->reached, 1);
	host_mark_put(m);
	host_event_put(e);
	return ret;
}

int stmpi_host_event_synchronize(stmpi_host_event_t event)
{
	struct stmpi_host_event *e = host_event_get(event);
	struct host_mark *m;

	if (e == NULL)
		return bad_event("stmpi_host_event_synchronize", event);
	m = newest_mark(e);
	host_event_put(e);
	if (m != NULL)
		host_wait_word(&m->reached, 1);
	host_mark_put(m);
	return 0;
}

int stmpi_host_stream_wait_event(stmpi_host_stream_t stream, stmpi_host_event_t event)
{
	struct stmpi_host_stream *s = host_stream_get(stream);
	struct stmpi_host_event *e;
	struct host_mark *m;
	int ret = 0;

	if (s == NULL)
		return bad_stream("stmpi_host_stream_wait_event", stream);
	e = host_event_get(event);
	if (e == NULL) {
		host_stream_put(s);
		return bad_event("stmpi_host_stream_wait_event", event);
	}
	m = newest_mark(e);
	if (m != NULL) {
		struct host_entry two[2] = {{.kind = HOST_WAIT, .a = &m->reached, .b = 1},
					    {.kind = HOST_UNMARK, .a = m}};

		ret = host_queue(s, two, 2); /* the entries take our reference over */
		if (ret != 0)
			host_mark_put(m);
	}
	host_event_put(e);
	host_stream_put(s);
	return ret;
}

int stmpi_host_event_elapsed_ns(stmpi_host_event_t start, stmpi_host_event_t end, int64_t *ns)
{
	stmpi_host_event_t handles[2] = {start, end};
	uint64_t times[2];

	if (ns == NULL)
		return stmpi_error_set(STMPI_EINVAL, "stmpi_host_event_elapsed_ns: ns is NULL");
	for (int i = 0; i < 2; i++) {
		struct stmpi_host_event *e = host_event_get(handles[i]);
		struct host_mark *m;
		int is_ready;

		if (e == NULL)
			return bad_event("stmpi_host_event_elapsed_ns", handles[i]);
		m = newest_mark(e);
		host_event_put(e);
		is_ready = m != NULL && stmpi_word_reached(&m->reached, 1);
		times[i] = is_ready ? m->time_ns : 0;
		host_mark_put(m);
		if (!is_ready)
			return stmpi_error_set(
				STMPI_ENOTREADY,
				"stmpi_host_event_elapsed_ns: %s was not recorded or not reached",
				i == 0 ? "start" : "end");
	}
	*ns = (int64_t)(times[1] - times[0]);
	return 0;
}

/* ---- the table for the core ---- */

static int probe(char *why, size_t why_bytes)
{
	(void)why;
	(void)why_bytes;
	return 0;
}

static int attach(const void *handle, const struct stmpi_stream_hook *hook, void *hook_arg,
		  struct stmpi_stream_port **port)
{
	stmpi_host_stream_t stream;
	struct host_port *p;

	memcpy(&stream, handle, sizeof(stream));
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a stream's port");
	p->stream = host_stream_get(stream);
	if (p->stream == NULL) {
		free(p);
		return bad_stream("value", stream);
	}
	p->port.ops = &stmpi_stream_host_ops;
	p->hook = hook;
	p->arg = hook_arg;
	host_hook_add(hook);
	*port = &p->port;
	return 0;
}

static void detach(struct stmpi_stream_port *port)
{
	struct host_port *p = (struct host_port *)port;
	struct stmpi_host_stream *s;
	struct host_entry e = {.kind = HOST_DETACH, .a = p};

	if (p == NULL)
		return;
	s = p->stream;
	host_hook_remove();
	/* Behind the port's last doorbell. Without memory for the entry the port stays. */
	(void)host_queue(s, &e, 1);
	host_stream_put(s);
}

/* The worker reaches all memory of the process. */
static int map(struct stmpi_stream_port *port, void *addr, size_t bytes)
{
	(void)port;
	(void)addr;
	(void)bytes;
	return 0;
}

/* A port holds its stream, which takes work at any time. */
static int check(struct stmpi_stream_port *port)
{
	(void)port;
	return 0;
}

static enum stmpi_mem_kind mem_kind(struct stmpi_stream_port *port, const void *addr)
{
	(void)port;
	(void)addr;
	return STMPI_MEM_CPU;
}

static int move_now(struct stmpi_stream_port *port, void *addr, const void *src, size_t bytes)
{
	(void)port;
	memcpy(addr, src, bytes);
	return 0;
}

static void fini(void)
{
}

static int batch(struct stmpi_stream_port *port, const struct stmpi_memop *ops, int n)
{
	static const uint8_t kinds[] = {
		[STMPI_MEMOP_DOORBELL] = HOST_DOORBELL, [STMPI_MEMOP_FIRE] = HOST_FIRE,
		[STMPI_MEMOP_WRITE] = HOST_WRITE,	[STMPI_MEMOP_WAIT] = HOST_WAIT,
		[STMPI_MEMOP_COPY] = HOST_COPY,		[STMPI_MEMOP_MOVE] = HOST_COPY,
	};
	struct host_port *p = (struct host_port *)port;
	struct stmpi_host_stream *s = p->stream;
	struct host_entry e;
	int i, ret = 0;

	pthread_mutex_lock(&s->mutex);
	for (i = 0; i < n; i++) {
		e.kind = kinds[ops[i].kind];
		e.a = ops[i].addr;
		e.b = ops[i].value;
		e.c = ops[i].kind == STMPI_MEMOP_DOORBELL || ops[i].kind == STMPI_MEMOP_FIRE
			      ? (const void *)p
			      : ops[i].src;
		ret = reserve(s, &e, 1);
		if (stmpi_unlikely(ret != 0))
			break;
	}
	if (stmpi_likely(ret == 0))
		publish(s, n);
	else
		stmpi_spscq_unreserve(&s->q, (uint32_t)i);
	pthread_mutex_unlock(&s->mutex);
	return ret;
}

static int port_query(struct stmpi_stream_port *port)
{
	return query(((struct host_port *)port)->stream);
}

const struct stmpi_stream_ops stmpi_stream_host_ops = {
	.abi = STMPI_STREAM_ABI,
	.bytes = sizeof(struct stmpi_stream_ops),
	.name = "host",
	.type_name = "stmpi_host_stream_t",
	.handle_bytes = sizeof(stmpi_host_stream_t),
	.caps = STMPI_STREAM_CAP_DRIVES_PROGRESS | STMPI_STREAM_CAP_COPIES_HOST |
		STMPI_STREAM_CAP_KEEPS_STREAM,
	.probe = probe,
	.attach = attach,
	.detach = detach,
	.map = map,
	.check = check,
	.mem_kind = mem_kind,
	.batch = batch,
	.move_now = move_now,
	.query = port_query,
	.fini = fini,
};
