/* SPDX-License-Identifier: BSD-3-Clause */
/* streams.c: forty streams at once, each waiting for a message that another one sends; the waits
 * are enqueued first. */
#include "kit.h"

#define STREAMS 40
#define ROUNDS	20

int main(int argc, char **argv)
{
	static struct kit k[STREAMS];
	static uint64_t in[STREAMS][ROUNDS], out[STREAMS][ROUNDS];
	uint64_t gate;

	kit_init(&argc, &argv);
	for (int s = 0; s < STREAMS; s++)
		kit_open(&k[s], MPI_COMM_WORLD);
	/* Even streams receive what the peer's odd ones send, by the even stream's communicator. */
	for (int r = 0; r < ROUNDS; r++) {
		for (int s = 0; s < STREAMS; s += 2)
			kit_recv(&k[s], &in[s][r], 8, !kit_rank, r);
	}
	kit_gate(&k[1], &gate);
	for (int r = 0; r < ROUNDS; r++) {
		for (int s = 1; s < STREAMS; s += 2) {
			out[s][r] = (uint64_t)(s * 1000 + r);
			kit_send(&k[s], &out[s][r], 8, !kit_rank, r);
		}
	}
	/* Odd communicators are received from by ordinary calls, so that all of them carry
	 * messages. */
	kit_gate_open(&gate);
	for (int s = 1; s < STREAMS; s += 2) {
		for (int r = 0; r < ROUNDS; r++) {
			uint64_t v = 0;

			KIT(MPI_Recv(&v, 8, MPI_BYTE, !kit_rank, r, k[s].comm, MPI_STATUS_IGNORE) ==
			    MPI_SUCCESS);
			KIT(v == (uint64_t)(s * 1000 + r));
			v++;
			KIT(MPI_Send(&v, 8, MPI_BYTE, !kit_rank, r, k[s - 1].comm) == MPI_SUCCESS);
		}
	}
	for (int s = 0; s < STREAMS; s++)
		kit_sync(&k[s]);
	for (int s = 0; s < STREAMS; s += 2) {
		for (int r = 0; r < ROUNDS; r++)
			KIT(in[s][r] == (uint64_t)((s + 1) * 1000 + r) + 1);
	}
	for (int s = 0; s < STREAMS; s++)
		kit_close(&k[s]);
	return kit_end();
}
