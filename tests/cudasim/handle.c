/* SPDX-License-Identifier: BSD-3-Clause */
/* handle.c: a handle is a number, type and place in a table with a generation: one that was
 * destroyed is known as such for ever, and none is an address that a program could follow. */
#include <stdlib.h>

#include "sim.h"

struct slot {
	void *object; /* NULL: free */
	uint32_t generation;
	uint32_t next_free;
	enum handle_type type;
};

static struct slot *slots;
static uint32_t slot_count, slot_room, first_free;

/* 0, 1 and 2 are the default streams: a type is never 0. */
static void *pack(uint32_t index)
{
	return (void *)(((uintptr_t)slots[index].generation << 32 & 0x7fff00000000) |
			(uintptr_t)index << 8 | (uintptr_t)slots[index].type << 4);
}

static struct slot *unpack(const void *handle)
{
	uint32_t index = (uintptr_t)handle >> 8 & 0xffffff;

	if (index == 0 || index >= slot_count || !slots[index].object || pack(index) != handle)
		return NULL;
	return &slots[index];
}

void *handle_new(enum handle_type type, void *object)
{
	uint32_t index = first_free;

	if (index) {
		first_free = slots[index].next_free;
	} else {
		if (slot_count == 0)
			slot_count = 1;
		index = slot_count++;
		if (index >= slot_room) {
			slots = realloc(slots, (slot_room = index * 2 + 64) * sizeof(*slots));
			if (!slots) {
				sim_say("no memory for handles");
				_Exit(1);
			}
		}
		slots[index].generation = 1;
	}
	slots[index].object = object;
	slots[index].type = type;
	return pack(index);
}

void *handle_get(enum handle_type type, const void *handle)
{
	const struct slot *s = unpack(handle);

	return s && s->type == type ? s->object : NULL;
}

void handle_drop(const void *handle)
{
	struct slot *s = unpack(handle);

	if (!s)
		return;
	s->object = NULL;
	s->generation++;
	s->next_free = first_free;
	first_free = (uint32_t)(s - slots);
}
