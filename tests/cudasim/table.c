/* SPDX-License-Identifier: BSD-3-Clause */
/* table.c: see table.h. */
#include "table.h"

#include <stddef.h>

#include "link.h"

#define CALL(base, version, symbol)    extern void symbol(void);
#define CALL_PT(base, version, symbol) extern void symbol(void);
#define ALIAS(base, version, symbol)
#include "calls.def"
#undef CALL
#undef CALL_PT
#undef ALIAS

const struct call calls[CALL_COUNT] = {
#define CALL(b, v, s)	 {#b, #s, v, false, (void *)s},
#define CALL_PT(b, v, s) {#b, #s, v, true, (void *)s},
#define ALIAS(base, version, symbol)
#include "calls.def"
#undef CALL
#undef CALL_PT
#undef ALIAS
};

const struct call call_aliases[] = {
#define CALL(base, version, symbol)
#define CALL_PT(base, version, symbol)
#define ALIAS(b, v, s) {#b, #s, v, false, (void *)s},
#include "calls.def"
#undef CALL
#undef CALL_PT
#undef ALIAS
	{NULL, NULL, 0, false, NULL},
};

#define MISSING(name)                                                                              \
	__attribute__((visibility("default"))) int name(void);                                     \
	int name(void)                                                                             \
	{                                                                                          \
		return cudasim_missing(#name);                                                     \
	}
#include "missing_driver.h"
#undef MISSING

const struct missing missing_calls[] = {
#define MISSING(name) {#name, (void *)name},
#include "missing_driver.h"
#undef MISSING
	{NULL, NULL},
};
