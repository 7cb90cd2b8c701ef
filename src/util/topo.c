/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/topo.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "config.h"

#ifdef HAVE_HWLOC
#include <hwloc.h>

/* Loaded once, with its devices; read-only after. NULL when hwloc could not. */
static hwloc_topology_t topology;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
	hwloc_topology_t t;

	if (hwloc_topology_init(&t) != 0)
		return;
	hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
	if (hwloc_topology_load(t) == 0)
		topology = t;
	else
		hwloc_topology_destroy(t);
}

/* The core (or where cores are unknown the processing unit) that cpu belongs to. */
static hwloc_obj_t core_of(unsigned int cpu)
{
	hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(topology, cpu);
	hwloc_obj_t core =
		pu != NULL ? hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu) : NULL;

	return core != NULL ? core : pu;
}

int stmpi_topo_progress_cpu(void)
{
	int here = sched_getcpu();
	hwloc_obj_t own;
	cpu_set_t set;

	pthread_once(&once, load);
	if (topology == NULL || here < 0 || sched_getaffinity(0, sizeof(set), &set) != 0)
		return -1;
	own = core_of((unsigned int)here);
	/* From the end: low cores are where programs are put first. */
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) {
		if (CPU_ISSET(cpu, &set) && core_of((unsigned int)cpu) != own)
			return cpu;
	}
	return -1;
}

static hwloc_obj_t find_device(const char *pci, const char *os_name)
{
	hwloc_obj_t o = NULL;

	if (pci != NULL)
		return hwloc_get_pcidev_by_busidstring(topology, pci);
	if (os_name == NULL)
		return NULL;
	while ((o = hwloc_get_next_osdev(topology, o)) != NULL) {
		if (o->name != NULL && strcmp(o->name, os_name) == 0)
			return o;
	}
	return NULL;
}

int stmpi_topo_distance(const char *pci, const char *os_name)
{
	hwloc_bitmap_t set;
	hwloc_obj_t dev, at;
	int distance = 0;

	pthread_once(&once, load);
	if (topology == NULL)
		return -1;
	dev = find_device(pci, os_name);
	if (dev == NULL)
		return -1;
	at = hwloc_get_non_io_ancestor_obj(topology, dev);
	set = hwloc_bitmap_alloc();
	if (set == NULL || hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS) != 0) {
		hwloc_bitmap_free(set);
		return -1;
	}
	/* Steps up from the device's place until it covers a core of ours. */
	while (at != NULL && !hwloc_bitmap_intersects(at->cpuset, set)) {
		at = at->parent;
		distance++;
	}
	hwloc_bitmap_free(set);
	return at != NULL ? distance : -1;
}

#else /* without hwloc */

int stmpi_topo_progress_cpu(void)
{
	return -1;
}

int stmpi_topo_distance(const char *pci, const char *os_name)
{
	(void)pci;
	(void)os_name;
	return -1;
}

#endif

int stmpi_topo_describe(char *text, size_t bytes)
{
	int cpu = stmpi_topo_progress_cpu(), allowed = 0;
	cpu_set_t set;
	char where[32] = "none of its own";

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		allowed = CPU_COUNT(&set);
	if (cpu >= 0)
		snprintf(where, sizeof(where), "%d", cpu);
	return snprintf(text, bytes,
			"allowed cores: %d; caller on core: %d; core of the progress thread: %s",
			allowed, sched_getcpu(), where);
}
