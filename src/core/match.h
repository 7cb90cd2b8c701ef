/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match.h: MPI matching: receives that wait for messages, and messages that wait for receives.
 *
 * A receive names (context, source, tag), the last two possibly by wildcard. Both sides are kept in
 * hashed lists in order of arrival, so the oldest partner is found without walking past unrelated
 * ones. It must not know of buffers, protocols or networks. Not locked: the engine's token guards
 * it. Hot.
 */
#ifndef STMPI_CORE_MATCH_H
#define STMPI_CORE_MATCH_H

#include <stdint.h>

#define STMPI_MATCH_BUCKETS 1024u /* a power of two */
#define STMPI_MATCH_KINDS   4u	  /* bit 0: any source, bit 1: any tag */

/* A posted receive; lives in its operation. */
struct stmpi_match_recv {
	uint32_t ctx;
	int32_t source; /* or STMPI_ANY_SOURCE */
	int32_t tag;	/* or STMPI_ANY_TAG */
	uint64_t seq;	/* post order over all lists; set by _post */
	struct stmpi_match_recv *next, *prev;
};

/* A message that came before its receive. It stands in one list for each way a receive can name it.
 */
struct stmpi_match_msg {
	uint32_t ctx;
	int32_t source;
	int32_t tag;
	struct {
		struct stmpi_match_msg *next, *prev;
	} link[STMPI_MATCH_KINDS];
};

struct stmpi_match {
	uint64_t seq;
	uint64_t posted_count[STMPI_MATCH_KINDS];
	uint64_t message_count;
	struct stmpi_match_recv *posted[STMPI_MATCH_BUCKETS];
	struct stmpi_match_msg *messages[STMPI_MATCH_KINDS][STMPI_MATCH_BUCKETS];
};

/* Add a receive that found no message. */
void stmpi_match_post(struct stmpi_match *m, struct stmpi_match_recv *recv);

/* Take a posted receive out again. */
void stmpi_match_unpost(struct stmpi_match *m, struct stmpi_match_recv *recv);

/* A message has come: remove and return the oldest receive that takes it, or NULL. */
struct stmpi_match_recv *stmpi_match_arrive(struct stmpi_match *m, uint32_t ctx, int32_t source,
					    int32_t tag);

/* Keep a message that found no receive. */
void stmpi_match_keep(struct stmpi_match *m, struct stmpi_match_msg *msg);

/* The oldest kept message that a receive of (ctx, source, tag) takes, or NULL. It stays. */
struct stmpi_match_msg *stmpi_match_find(struct stmpi_match *m, uint32_t ctx, int32_t source,
					 int32_t tag);

/* Remove a kept message. */
void stmpi_match_drop(struct stmpi_match *m, struct stmpi_match_msg *msg);

#endif
