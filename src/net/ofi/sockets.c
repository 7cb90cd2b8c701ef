/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sockets.c: what the provider sockets needs: TCP connections with room to receive.
 *
 * It looks at a packet's head without taking it, until all of the head is there. The kernel gives
 * no window while what is left of one large segment fills the receive buffer, and at the size that
 * Linux begins with, 128 KiB, one segment does. When a head's first bytes end such a segment, each
 * waits for the other, for ever. Buffers that hold several segments make that impossible. The
 * provider has no setting for them, so they are set from outside: on the socket that it listens
 * with, which hands its size on to those that it accepts, and on those that it has connected.
 */
#include <dirent.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "net/ofi/ofi_int.h"
#include "util/log.h"

#define ENOUGH	  (512 * 1024) /* bytes: no one segment and its bookkeeping fill half of it */
#define LOOKS_MAX 50u	       /* idle times that a peer's connection is looked for */

/* Its end of a connection, as far as we look at it. */
static int is_at(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
	return a->sin_family == AF_INET && b->sin_family == AF_INET && a->sin_port == b->sin_port &&
	       a->sin_addr.s_addr == b->sin_addr.s_addr;
}

static void enlarge(int fd)
{
	int bytes = 0, want = OFI_SOCKETS_RCVBUF;
	socklen_t n = sizeof(bytes);

	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &n) != 0 || bytes >= ENOUGH)
		return;
	/* The kernel takes net.core.rmem_max if that is less. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &want, sizeof(want)) != 0)
		stmpi_log(STMPI_LOG_INFO, "sockets: a receive buffer stays at %d bytes", bytes);
}

/* Enlarge all sockets that begin or end at the address; how many there were. */
static int enlarge_at(const struct sockaddr_in *address)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int found = 0;

	if (dir == NULL)
		return 0;
	while ((e = readdir(dir)) != NULL) {
		struct sockaddr_in here = {0}, there = {0};
		socklen_t n = sizeof(here), m = sizeof(there);
		int fd = atoi(e->d_name);

		if (e->d_name[0] == '.' ||
		    getsockname(fd, (struct sockaddr *)(void *)&here, &n) != 0)
			continue;
		if (getpeername(fd, (struct sockaddr *)(void *)&there, &m) != 0)
			there.sin_family = AF_UNSPEC; /* it listens */
		if (!is_at(&here, address) && !is_at(&there, address))
			continue;
		enlarge(fd);
		found++;
	}
	closedir(dir);
	return found;
}

void ofi_sockets_open(struct ofi_rail *r)
{
	struct sockaddr_in own = {0};
	size_t n = sizeof(own);

	if (fi_getname(&r->ep->fid, &own, &n) == 0)
		(void)enlarge_at(&own);
}

void ofi_sockets_idle(struct ofi_rail *r)
{
	struct stmpi_net_peer *p;

	for (p = r->peers; p != NULL; p = p->next) {
		struct sockaddr_in name = {0};
		size_t n = sizeof(name);

		if (!p->is_used || p->looks >= LOOKS_MAX)
			continue;
		p->looks++;
		/* Not found: it is being connected, or the peer was first and it was accepted. */
		if (fi_av_lookup(r->av, p->addr, &name, &n) == 0 && enlarge_at(&name) > 0)
			p->looks = LOOKS_MAX;
	}
}

/* What is posted beyond its pool it frees only when it is taken back. */
void ofi_sockets_close(struct ofi_rail *r)
{
	if (r->ep == NULL || r->reqs == NULL)
		return;
	for (uint32_t i = 0; i < r->rx_buffers; i++)
		(void)fi_cancel(&r->ep->fid, &r->reqs[i].context);
}
