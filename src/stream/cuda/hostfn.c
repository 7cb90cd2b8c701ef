/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostfn.c: the fallback for devices without 64-bit memory operations: one host function per batch,
 * which writes words and waits for them. It makes no call of CUDA or MPI.
 *
 * The driver may run all host functions of a process in one thread, one after the other: a wait in
 * one stream then holds up those of the others. A program in which one stream's message waits for
 * another stream of the same process does not get on this way; the wait ends after the watchdog's
 * time.
 */
#include <stdlib.h>
#include <string.h>

#include "stream/cuda/cuda_int.h"
#include "util/backoff.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/params.h"

/* What one host function does. Made when queued, given back when it has run. */
struct note {
	struct note *next;
	int n, room;
	struct stmpi_memop ops[];
};

/* Usual batches have at most four entries. */
#define NOTE_ROOM 4

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards notes; innermost */
static struct note *notes;				  /* of NOTE_ROOM entries, not in use */

static struct note *note_get(int n)
{
	struct note *note = NULL;

	if (n <= NOTE_ROOM) {
		n = NOTE_ROOM;
		pthread_mutex_lock(&mutex);
		note = notes;
		if (note != NULL)
			notes = note->next;
		pthread_mutex_unlock(&mutex);
	}
	if (note == NULL) {
		note = malloc(sizeof(*note) + (size_t)n * sizeof(note->ops[0]));
		if (note != NULL)
			note->room = n;
	}
	return note;
}

static void note_put(struct note *note)
{
	if (note->room != NOTE_ROOM) {
		free(note);
		return;
	}
	pthread_mutex_lock(&mutex);
	note->next = notes;
	notes = note;
	pthread_mutex_unlock(&mutex);
}

/* Bounded: past the time in which the watchdog ends what is waited for. */
static void wait_word(const uint64_t *word, uint64_t value)
{
	uint64_t limit = (uint64_t)stmpi_param_int(STMPI_PARAM_WATCHDOG) * 1000000000u;
	uint64_t begin = stmpi_clock_ns();
	struct stmpi_backoff b = {0, 0, 0};

	while (!stmpi_word_reached(word, value)) {
		if (!stmpi_backoff_pause(&b) || limit == 0)
			continue;
		if (stmpi_clock_ns() - begin > limit + limit / 2) {
			stmpi_log(STMPI_LOG_ERROR,
				  "a wait in a CUDA stream was given up after %lld s",
				  (long long)((stmpi_clock_ns() - begin) / 1000000000u));
			return;
		}
	}
}

static void CUDA_CB run(void *arg)
{
	struct note *note = arg;

	for (int i = 0; i < note->n; i++) {
		const struct stmpi_memop *m = &note->ops[i];

		if (m->kind == STMPI_MEMOP_WAIT)
			wait_word(m->addr, m->value);
		else
			stmpi_word_store(m->addr, m->value);
	}
	note_put(note);
}

CUresult cuda_hostfn_queue(CUstream stream, const struct stmpi_memop *ops, int n)
{
	struct note *note = note_get(n);
	CUresult e;

	if (note == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	note->n = n;
	memcpy(note->ops, ops, (size_t)n * sizeof(*ops));
	e = cuda_call.cuLaunchHostFunc(stream, run, note);
	if (e != CUDA_SUCCESS)
		note_put(note);
	return e;
}
