/* SPDX-License-Identifier: BSD-3-Clause */
/* stream.c: core streams: a backend stream's port, its doorbell and trigger. Cold but for poll. */
#include <stdlib.h>
#include <string.h>

#include "core/core_int.h"
#include "util/error.h"

#define E (&stmpi_engine)

#define WORDS_PER_LINE (STMPI_CACHE_LINE / sizeof(uint64_t))

/* A stream whose last user has gone and whose works have all run; NULL when there is none. */
static struct stmpi_stream *reuse(void)
{
	struct stmpi_stream *s;

	pthread_mutex_lock(&E->mutex);
	for (s = atomic_load(&E->streams); s != NULL; s = s->next) {
		/* A stream of its former life may still have to write its doorbell. */
		if (atomic_load(&s->refs) == 0 && !atomic_load(&s->is_open) &&
		    stmpi_word_load(s->doorbell) == atomic_load(&s->rung)) {
			atomic_store(&s->refs, 1); /* claimed; under the mutex, so once */
			break;
		}
	}
	pthread_mutex_unlock(&E->mutex);
	return s;
}

static int make(struct stmpi_stream **out)
{
	struct stmpi_stream *s;
	uint32_t word;
	int ret;

	if (posix_memalign((void **)&s, STMPI_CACHE_LINE, sizeof(*s)) != 0)
		return stmpi_error_set(STMPI_ENOMEM, "no memory for a stream");
	memset(s, 0, sizeof(*s));
	pthread_mutex_init(&s->mutex, NULL);
	ret = stmpi_trigger_create(&s->trigger);
	if (ret != 0)
		goto err_free;
	pthread_mutex_lock(&E->mutex);
	/* A cache line of its own: the stream writes it, pollers read it. */
	ret = stmpi_flags_alloc(&E->flags, 2 * WORDS_PER_LINE, &word);
	if (ret == 0) {
		word = (word + WORDS_PER_LINE - 1) / WORDS_PER_LINE * WORDS_PER_LINE;
		s->doorbell = &E->flags.words[word];
		atomic_store(&s->refs, 1);
		s->next = atomic_load(&E->streams);
		s->id = s->next != NULL ? s->next->id + 1 : 0;
		atomic_store(&E->streams, s); /* whole before it can be found */
	}
	pthread_mutex_unlock(&E->mutex);
	if (ret != 0)
		goto err_trigger;
	*out = s;
	return 0;
err_trigger:
	stmpi_trigger_destroy(s->trigger);
err_free:
	pthread_mutex_destroy(&s->mutex);
	free(s);
	return ret;
}

/* Attach the user's stream, and let its device know the memory that it will use. */
static int attach(struct stmpi_stream *s, const struct stmpi_stream_ops *ops, const void *handle)
{
	int ret;

	if (s->has_trailing) /* nobody knows whether the copies that it stands for were made */
		stmpi_stage_forget(s);
	s->has_trailing = 0;
	ret = ops->attach(handle, &stmpi_progress_hook, s, &s->port);
	if (ret != 0)
		return ret;
	s->ops = ops;
	ret = stmpi_stage_open(s);
	if (ret != 0) {
		ops->detach(s->port);
		s->ops = NULL;
	}
	return ret;
}

int stmpi_stream_create(const char *type_name, const void *handle, size_t handle_bytes,
			struct stmpi_stream **stream)
{
	const struct stmpi_stream_ops *ops = NULL;
	struct stmpi_stream *s;
	int ret = 0;

	if (type_name != NULL) {
		ret = stmpi_stream_backend_find(type_name, &ops);
		if (ret != 0)
			return ret;
		if (handle_bytes != ops->handle_bytes)
			return stmpi_error_set(STMPI_EINVAL,
					       "value has %zu bytes, but a %s has %zu",
					       handle_bytes, type_name, ops->handle_bytes);
	}
	s = reuse();
	if (s == NULL)
		ret = make(&s);
	if (ret != 0)
		return ret;
	s->ops = NULL;
	atomic_store(&s->error, 0);
	if (ops != NULL) {
		ret = attach(s, ops, handle);
		if (ret != 0) {
			atomic_store(&s->refs, 0);
			return ret;
		}
		atomic_store(&s->is_open, 1);
	}
	*stream = s;
	return 0;
}

void stmpi_stream_get(struct stmpi_stream *stream)
{
	/* The caller holds a reference. */
	atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
}

void stmpi_stream_put(struct stmpi_stream *stream)
{
	struct stmpi_stream_port *port;
	const struct stmpi_stream_ops *ops;

	if (stream == NULL)
		return;
	port = stream->port;
	ops = stream->ops;
	if (atomic_fetch_sub(&stream->refs, 1) != 1)
		return;
	/*
	 * Every operation held its communicator and that this stream, so all works have run:
	 * nothing of this stream is queued on the port any more.
	 */
	if (ops != NULL) {
		ops->detach(port);
		stream->port = NULL;
		stream->ops = NULL;
		atomic_store(&stream->is_open, 0); /* last: from here on it can be reused */
	}
}

int stmpi_stream_can_enqueue(const struct stmpi_stream *stream)
{
	return stream->ops != NULL;
}

int stmpi_stream_take_error(struct stmpi_stream *stream)
{
	if (stmpi_likely(atomic_load_explicit(&stream->error, memory_order_relaxed) == 0))
		return 0; /* a hint: an error that lands now is returned by the next call */
	return atomic_exchange(&stream->error, 0);
}
