/* SPDX-License-Identifier: BSD-3-Clause */
/* table.h: every call by name. table.c does not see cuda.h, so that one line can declare a function
 * whatever its type. */
#ifndef CUDASIM_TABLE_H
#define CUDASIM_TABLE_H

#include <stdbool.h>

enum call_index {
#define CALL(base, version, symbol)    CALL_##symbol,
#define CALL_PT(base, version, symbol) CALL_##symbol,
#define ALIAS(base, version, symbol)
#include "calls.def"
#undef CALL
#undef CALL_PT
#undef ALIAS
	CALL_COUNT
};

struct call {
	const char *base, *symbol;
	int version;
	bool is_per_thread;
	void *fn;
};
extern const struct call calls[CALL_COUNT];
/* Other names for some of them; the last has none. */
extern const struct call call_aliases[];

/* What cuda.h has and the simulator lacks: each says so and fails. The last has no name. */
struct missing {
	const char *name;
	void *fn;
};
extern const struct missing missing_calls[];

#endif
