/* SPDX-License-Identifier: BSD-3-Clause */
/* capabilities.h: what --mask takes away: name, bit. Shared by the simulator and simrun. */
#ifndef CUDASIM_CAPABILITIES_H
#define CUDASIM_CAPABILITIES_H

#define CUDASIM_CAPABILITIES(X)                                                                    \
	X("memops", CAP_MEMOPS)                                                                    \
	X("memops64", CAP_MEMOPS64)                                                                \
	X("wait-nor", CAP_WAIT_NOR)                                                                \
	X("ipc", CAP_IPC)                                                                          \
	X("vmm", CAP_VMM)                                                                          \
	X("managed", CAP_MANAGED)                                                                  \
	X("pools", CAP_POOLS)                                                                      \
	X("peer", CAP_PEER)                                                                        \
	X("host-register", CAP_HOST_REGISTER)

#endif
