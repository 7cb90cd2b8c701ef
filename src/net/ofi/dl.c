/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dl.c: libfabric without linking it. The process may already have a copy (an MPI's own), and two
 * copies of one soname cannot be in one process; so take that one, else the system's. Symbols are
 * looked up in that library alone, so those of an MPI with libfabric inside do not capture us, and
 * in the version whose structures this build was compiled with.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/ofi/ofi_int.h"
#include "util/error.h"

#if FI_VERSION_GE(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), FI_VERSION(2, 0))
#define INFO_ABI "FABRIC_1.8"
#elif FI_VERSION_GE(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), FI_VERSION(1, 20))
#define INFO_ABI "FABRIC_1.7"
#else
#define INFO_ABI "FABRIC_1.3"
#endif

static struct ofi_dl table;
static int is_found;
static char why[160] = "libfabric.so.1";
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *lookup(void *lib, const char *name, const char *version)
{
	void *symbol = dlvsym(lib, name, version);

	return symbol != NULL ? symbol : dlsym(lib, name);
}

/* Unless the user has said otherwise: read by libfabric when it is loaded. */
static void set_defaults(void)
{
	/* Debian's copy loads psm, whose handler turns a crash into exit status 1. */
	setenv("IPATH_NO_BACKTRACE", "1", 0);
	setenv("HFI_NO_BACKTRACE", "1", 0);
	/* sockets: its progress thread must not spin for 10 ms after each event. */
	setenv("FI_SOCKETS_PE_WAITTIME", "0", 0);
}

static void load(void)
{
	void *lib = dlopen("libfabric.so.1", RTLD_NOW | RTLD_NOLOAD);
	const char *error;

	set_defaults();
	if (lib == NULL)
		lib = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
	if (lib == NULL) {
		error = dlerror();
		if (error != NULL)
			snprintf(why, sizeof(why), "%s", error);
		return;
	}
	/* Function pointers through void *: POSIX allows it, ISO C only by way of memory. */
	*(void **)&table.getinfo = lookup(lib, "fi_getinfo", INFO_ABI);
	*(void **)&table.freeinfo = lookup(lib, "fi_freeinfo", INFO_ABI);
	*(void **)&table.dupinfo = lookup(lib, "fi_dupinfo", INFO_ABI);
	*(void **)&table.fabric = lookup(lib, "fi_fabric", "FABRIC_1.1");
	*(void **)&table.strerror = lookup(lib, "fi_strerror", "FABRIC_1.0");
	*(void **)&table.version = lookup(lib, "fi_version", "FABRIC_1.0");
	is_found = table.getinfo && table.freeinfo && table.dupinfo && table.fabric &&
		   table.strerror && table.version;
	if (!is_found)
		snprintf(why, sizeof(why),
			 "libfabric.so.1 lacks a function that every libfabric has");
}

const struct ofi_dl *ofi_dl_get(void)
{
	pthread_once(&once, load);
	if (is_found)
		return &table;
	stmpi_error_set(STMPI_ENODEV, "libfabric cannot be loaded: %s", why);
	return NULL;
}
