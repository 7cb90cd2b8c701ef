/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.c: a send reads after all earlier work of its stream and before all later work; a receive
 * writes after all earlier work; later work, here and on streams that wait for an event, sees the
 * data. Each with its control.
 */
#include "kit.h"

struct job {
	void *buf;
	size_t bytes;
	uint64_t key;
	int ms;
	int is_right; /* result of a check on the stream */
};

static void fill_job(void *arg)
{
	struct job *j = arg;

	kit_sleep(j->ms);
	kit_fill(j->buf, j->bytes, j->key);
}

static void check_job(void *arg)
{
	struct job *j = arg;

	kit_sleep(j->ms);
	j->is_right = kit_check(j->buf, j->bytes, j->key);
}

static unsigned char *buffer(size_t bytes)
{
	unsigned char *b = malloc(bytes ? bytes : 1);

	KIT(b != NULL);
	memset(b, 0xee, bytes);
	return b;
}

/* Read after write: slow work fills the buffer, then it is sent. */
static void read_after_write(struct kit *k, size_t bytes)
{
	unsigned char *b = buffer(bytes);
	struct job j = {b, bytes, 1, 60, 0};

	if (kit_rank == 0) {
		KIT(any_stream_launch(k->host, fill_job, &j) == 0);
		kit_send(k, b, bytes, 1, 0);
		kit_sync(k);
	} else {
		kit_recv(k, b, bytes, 0, 0);
		kit_sync(k);
		KIT_ORDER(kit_check(b, bytes, 1));
	}
	free(b);
}

/* Write after read, receiver: slow work still reads the buffer that the receive will write. */
static void receive_after_read(struct kit *k, size_t bytes)
{
	unsigned char *b = buffer(bytes);
	struct job j = {b, bytes, 2, 100, 0};

	if (kit_rank == 0) {
		kit_fill(b, bytes, 3);
		kit_send(k, b, bytes, 1, 0);
		kit_sync(k);
	} else {
		kit_fill(b, bytes, 2);
		KIT(any_stream_launch(k->host, check_job, &j) == 0);
		kit_recv(k, b, bytes, 0, 0);
		kit_sync(k);
		KIT_ORDER(j.is_right);
		KIT(kit_check(b, bytes, 3));
	}
	free(b);
}

/* Write after read, sender: later work overwrites the buffer. The control's trigger fires when all
 * that has run. */
static void write_after_send(struct kit *k, size_t bytes)
{
	unsigned char *b = buffer(bytes);
	struct job j = {b, bytes, 5, 0, 0};

	if (kit_rank == 0) {
		kit_fill(b, bytes, 4);
		kit_work(k, 40);
		if (!kit_control)
			kit_send(k, b, bytes, 1, 0);
		KIT(any_stream_launch(k->host, fill_job, &j) == 0);
		KIT(any_stream_synchronize(k->host) == 0);
		if (kit_control)
			kit_send(k, b, bytes, 1, 0);
		kit_sync(k);
	} else {
		kit_sleep(150);
		kit_recv(k, b, bytes, 0, 0);
		kit_sync(k);
		KIT_ORDER(kit_check(b, bytes, 4));
	}
	free(b);
}

/* Work behind a receive sees the data. */
static void work_after_receive(struct kit *k, size_t bytes)
{
	unsigned char *b = buffer(bytes);
	struct job j = {b, bytes, 7, 0, 0};

	if (kit_rank == 0) {
		kit_sleep(50);
		kit_fill(b, bytes, 7);
		kit_send(k, b, bytes, 1, 0);
		kit_sync(k);
	} else {
		kit_recv(k, b, bytes, 0, 0);
		KIT(any_stream_launch(k->host, check_job, &j) == 0);
		kit_sync(k);
		KIT_ORDER(j.is_right);
	}
	free(b);
}

/* An event right behind a receive is not ready before the data; a second stream that waits for it
 * sees them. */
static void event_after_receive(struct kit *k, size_t bytes)
{
	unsigned char *b = buffer(bytes);
	struct job j = {b, bytes, 8, 0, 0};
	any_stream_t other;
	any_event_t event;

	if (kit_rank == 0) {
		kit_sleep(80);
		kit_fill(b, bytes, 8);
		kit_send(k, b, bytes, 1, 0);
		kit_sync(k);
	} else {
		KIT(any_stream_create(&other) == 0);
		KIT(any_event_create(&event) == 0);
		kit_recv(k, b, bytes, 0, 0);
		KIT(any_event_record(event, k->host) == 0);
		KIT(any_stream_wait_event(other, event) == 0);
		KIT(any_stream_launch(other, check_job, &j) == 0);
		kit_sleep(20);
		KIT_ORDER(any_event_query(event) == 1); /* the sender has not begun */
		KIT(any_stream_synchronize(other) == 0);
		KIT_ORDER(j.is_right);
		kit_sync(k);
		KIT(any_event_query(event) == 0);
		KIT(any_event_destroy(event) == 0);
		KIT(any_stream_destroy(other) == 0);
	}
	free(b);
}

/* The nonblocking forms of read_after_write and work_after_receive, whose controls stand for them.
 */
static void nonblocking(struct kit *k, size_t bytes)
{
	unsigned char *b = buffer(bytes);
	struct job j = {b, bytes, 9, 40, 0};
	MPI_Request r;

	if (kit_rank == 0) {
		KIT(any_stream_launch(k->host, fill_job, &j) == 0);
		KIT(MPIX_Isend_enqueue(b, (int)bytes, MPI_BYTE, 1, 0, k->comm, &r) == MPI_SUCCESS);
		KIT(MPIX_Wait_enqueue(&r, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		KIT(r == MPI_REQUEST_NULL);
		kit_sync(k);
	} else {
		j.ms = 0;
		KIT(MPIX_Irecv_enqueue(b, (int)bytes, MPI_BYTE, 0, 0, k->comm, &r) == MPI_SUCCESS);
		KIT(MPIX_Wait_enqueue(&r, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		KIT(any_stream_launch(k->host, check_job, &j) == 0);
		kit_sync(k);
		KIT(j.is_right);
	}
	free(b);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = {8, 65536, 4 << 20};
	struct kit k;

	kit_init(&argc, &argv);
	for (int i = 0; i < 3; i++) {
		kit_order("read after write", read_after_write, sizes[i]);
		kit_order("receive after read", receive_after_read, sizes[i]);
		kit_order("write after send", write_after_send, sizes[i]);
		kit_order("work after receive", work_after_receive, sizes[i]);
		kit_order("event after receive", event_after_receive, sizes[i]);
		kit_open(&k, MPI_COMM_WORLD);
		nonblocking(&k, sizes[i]);
		kit_close(&k);
	}
	return kit_end();
}
