/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topo.h: where this process runs in the machine, by hwloc; a build without hwloc answers
 * "unknown". The topology is loaded at the first question and kept. Any thread; may block.
 */
#ifndef STMPI_UTIL_TOPO_H
#define STMPI_UTIL_TOPO_H

#include <stddef.h>

/*
 * Choose a core for the progress thread: one of the process's allowed set that the caller is not
 * running on. -1 when the set has one core only, or the topology is unknown.
 */
int stmpi_topo_progress_cpu(void);

/*
 * How far a network device is from this process's cores: 0 shares the smallest locality with them,
 * more is farther; -1 unknown. pci is "dddd:bb:dd.f" or NULL; os_name is such as "eth0", "mlx5_0",
 * or NULL.
 */
int stmpi_topo_distance(const char *pci, const char *os_name);

/* One line for people: allowed cores, current core, progress core. Returns what snprintf would. */
int stmpi_topo_describe(char *text, size_t bytes);

#endif
