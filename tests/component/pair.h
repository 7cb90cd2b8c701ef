/* SPDX-License-Identifier: BSD-3-Clause */
/* pair.h: two processes with a rail between them, for the component tests of rails and triggers. */
#ifndef STMPI_TESTS_PAIR_H
#define STMPI_TESTS_PAIR_H

#include <stdlib.h>

#include "../suite.h"
#include "net/net.h"

#define NEED(cond) NEED_OF("side", side, cond)

/* A rail and its settings; provider NULL: our own shared memory. */
struct variant {
	const char *name, *provider, *cma;
	int forbid; /* process_vm_readv by seccomp */
	const char *trigger, *credits;
};

extern int side, wire; /* 0 or 1; a stream socket to the other one */
extern struct stmpi_flags flags;
extern struct stmpi_rail *rail;
extern struct stmpi_net_peer *peer, *self;
extern int peer_gone;
extern const struct stmpi_net_upcalls upcalls;

/* What came: packets are numbered in hdr.w[0], per sender in order, unless on_packet is set. */
extern uint64_t came[2], wrong;
extern void (*on_packet)(int from, const struct stmpi_net_hdr *hdr, const void *payload,
			 size_t bytes);

void fill(void *buf, size_t bytes, uint64_t key);
int is_right(const void *buf, size_t bytes, uint64_t key);

/* Exchange bytes with the other side. */
void swap(const void *mine, void *theirs, size_t bytes);

/* Both are here; the rail is polled meanwhile, since a provider may need it to finish. */
void meet(void);

const struct stmpi_net_ops *ops_of(const struct variant *v);
void begin(const struct variant *v);
void end(void);

/* Run body in two processes; a variant that this machine lacks is skipped with a word. */
void two(const struct variant *v, void (*body)(void));

struct stmpi_net_work *send_work(struct stmpi_net_work *w, struct stmpi_net_peer *to,
				 const void *src, size_t bytes, uint64_t number);
void post(struct stmpi_net_work *w);

/* body as test_body, over the rail variants[_i] of the file. */
#define OVER(body)                                                                                 \
	START_TEST(test_##body)                                                                    \
	{                                                                                          \
		two(&variants[_i], body);                                                          \
	}                                                                                          \
	END_TEST

#endif
