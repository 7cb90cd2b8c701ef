/* SPDX-License-Identifier: BSD-3-Clause */
/* dump.c: what people see when they ask what is pending, and the statistics. Cold. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "core/core_int.h"
#include "util/error.h"
#include "util/params.h"

#define E (&stmpi_engine)

static const char *const kinds[] = {"send", "ssend", "recv"};
static const char *const states[] = {
	[STMPI_STATE_QUEUED] = "waiting for its stream",
	[STMPI_STATE_SENDQ] = "waiting for room to the peer",
	[STMPI_STATE_POSTED] = "posted, no message yet",
	[STMPI_STATE_RTS] = "announced, not read by the peer yet",
	[STMPI_STATE_ACK] = "sent, not matched by the peer yet",
	[STMPI_STATE_SENDING] = "in the network",
	[STMPI_STATE_READING] = "matched, data on its way",
};

/* More lines than this say nothing new. */
#define DUMP_LINES 100u

struct dump {
	FILE *out;
	uint64_t count;
};

static void dump_one(struct stmpi_op *op, void *arg)
{
	struct dump *d = arg;
	struct stmpi_comm *comm = op->comm;
	char peer[24], tag[24], stream[24] = "none";
	uint8_t state = atomic_load_explicit(&op->state, memory_order_relaxed);

	if (state >= STMPI_STATE_DONE || comm == NULL || stmpi_op_is_done(op))
		return;
	if (d->count++ >= DUMP_LINES)
		return;
	snprintf(peer, sizeof(peer), op->peer == STMPI_ANY_SOURCE ? "any" : "%d", (int)op->peer);
	snprintf(tag, sizeof(tag), op->tag == STMPI_ANY_TAG ? "any" : "%d", (int)op->tag);
	if (op->stream != NULL)
		snprintf(stream, sizeof(stream), "%u", op->stream->id);
	fprintf(d->out, "stmpi[%d]   %s rank %d peer %s tag %s bytes %llu context %u stream %s: %s",
		(int)getpid(), kinds[op->kind], comm->rank, peer, tag,
		(unsigned long long)op->bytes, comm->ctx, stream, states[state]);
	if (state != STMPI_STATE_QUEUED)
		fprintf(d->out, ", for %.2f s",
			(double)stmpi_ticks_between(op->started_tick, atomic_load(&E->tick)) / 100);
	fputc('\n', d->out);
}

void stmpi_engine_dump(FILE *out)
{
	struct dump d = {out, 0};

	fprintf(out, "stmpi[%d] pending operations:\n", (int)getpid());
	stmpi_op_for_each(dump_one, &d);
	if (d.count > DUMP_LINES)
		fprintf(out, "stmpi[%d]   and %llu more\n", (int)getpid(),
			(unsigned long long)(d.count - DUMP_LINES));
	if (d.count == 0)
		fprintf(out, "stmpi[%d]   none\n", (int)getpid());
	fflush(out);
}

static void dump_deferred(FILE *out)
{
	const struct stmpi_trigger_stats *t = &stmpi_trigger_stats;
	struct stmpi_defer_stats d;

	E->ofi->defer->stats(E->ofi, &d);
	fprintf(out,
		"stmpi[%d] deferred work: credits %u, armed at most %u, now %u, lost %u; "
		"sends armed %llu; spilled %llu, of these refilled %llu; "
		"started by software %llu; doorbell %s\n",
		(int)getpid(), d.credits, d.highest, d.armed, d.lost, (unsigned long long)d.total,
		(unsigned long long)t->spilled, (unsigned long long)t->refilled,
		(unsigned long long)t->late, d.doorbell);
}

void stmpi_dump_stats(FILE *out)
{
	const struct stmpi_stats *s = &E->stats;

	fprintf(out,
		"stmpi[%d] statistics: sent eager %llu, rendezvous %llu; received %llu (truncated "
		"%llu); "
		"unexpected %llu, at once %llu; waited for room %llu, for credits %llu; credit "
		"packets %llu; "
		"failed %llu; progress rounds %llu; rails%s%s%s%s\n",
		(int)getpid(), (unsigned long long)s->eager, (unsigned long long)s->rendezvous,
		(unsigned long long)s->received, (unsigned long long)s->truncated,
		(unsigned long long)s->unexpected, (unsigned long long)s->unexpected_max,
		(unsigned long long)s->no_room, (unsigned long long)s->no_credit,
		(unsigned long long)s->credit_packets, (unsigned long long)s->failed,
		(unsigned long long)E->polls, E->shm ? " " : "", E->shm ? E->shm->description : "",
		E->ofi ? " " : "", E->ofi ? E->ofi->description : "");
	if (E->ofi != NULL && E->ofi->defer != NULL)
		dump_deferred(out);
	fflush(out);
}

/* Requests by signal; the progress thread, or a thread that waits, answers. */
static volatile sig_atomic_t requests;

static void on_signal(int number)
{
	(void)number;
	requests++;
}

uint32_t stmpi_dump_requests(void)
{
	return (uint32_t)requests;
}

int stmpi_dump_install(void)
{
	int number = (int)stmpi_param_int(STMPI_PARAM_DUMP_SIGNAL);
	struct sigaction action;

	if (number == 0)
		return 0;
	memset(&action, 0, sizeof(action));
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	if (sigaction(number, &action, NULL) != 0)
		return stmpi_error_set(STMPI_ECONFIG, "STMPI_DUMP_SIGNAL=%d: %s", number,
				       strerror(errno));
	E->dumps_asked = (uint32_t)requests;
	return 0;
}
