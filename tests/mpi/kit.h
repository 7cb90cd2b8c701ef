/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kit.h: what the MPI tests share: a stream communicator, gates, payload patterns, controls.
 *
 * A test of order runs its body twice. The second time is its negative control: kit_send and
 * kit_recv ignore the stream and make the ordinary nonblocking call at once, as a broken trigger
 * would; then KIT_ORDER must see wrong data.
 */
#ifndef STMPI_TESTS_KIT_H
#define STMPI_TESTS_KIT_H

#include <mpi.h>
#include <mpix.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "any_stream.h"

/* MPI_STATUSES_IGNORE is the number 1 as a pointer, and gcc takes it for an array that is too
 * small. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* The condition must hold in every run. */
#define KIT(cond)                                                                                  \
	do {                                                                                       \
		if (!(cond))                                                                       \
			kit_fail(__FILE__, __LINE__, #cond);                                       \
	} while (0)

/* The condition depends on order: true with the stream, false at least once without. */
#define KIT_ORDER(cond)                                                                            \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			if (!kit_control)                                                          \
				kit_fail(__FILE__, __LINE__, #cond);                               \
			kit_violations++;                                                          \
		}                                                                                  \
	} while (0)

struct kit {
	any_stream_t host;
	MPIX_Stream stream;
	MPI_Comm comm;
};

extern int kit_rank, kit_ranks, kit_control, kit_violations;

void kit_init(int *argc, char ***argv);
/* Print "ok" and finalise. Returns the exit status. */
int kit_end(void);
_Noreturn void kit_fail(const char *file, int line, const char *what);

/* Make a host stream and a stream communicator over parent, which has errors returned; and free
 * them. */
void kit_open(struct kit *k, MPI_Comm parent);
/* The same with the stream that k->host names already. */
void kit_open_on(struct kit *k, MPI_Comm parent);
void kit_close(struct kit *k);

/* Run body with the stream, then as control; the control must have found violations on some rank.
 */
void kit_order(const char *name, void (*body)(struct kit *k, size_t bytes), size_t bytes);

/* Enqueued with its wait; in the control an ordinary nonblocking call, waited for by kit_sync. */
void kit_send(struct kit *k, const void *buf, size_t bytes, int dest, int tag);
void kit_recv(struct kit *k, void *buf, size_t bytes, int source, int tag);
/* Wait for the stream, and the control's calls. */
void kit_sync(struct kit *k);

/* Payload keyed to a number and the offset. */
void kit_fill(void *buf, size_t bytes, uint64_t key);
int kit_check(const void *buf, size_t bytes, uint64_t key); /* 1 when right */

/* Queue a wait that kit_gate_open ends. */
void kit_gate(struct kit *k, uint64_t *gate);
void kit_gate_open(uint64_t *gate);

/* Queue ms milliseconds of work; do nothing for ms milliseconds. */
void kit_work(struct kit *k, int ms);
void kit_sleep(int ms);

/* Resident memory in KiB, and open files. */
long kit_rss_kib(void);
int kit_files(void);

/* A seeded random number; the seed is printed at the start (STMPI_TEST_SEED). */
uint32_t kit_random(void);
/* That seed, the same on all ranks. */
uint32_t kit_seed(void);

#endif
