/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ipc.c: memory of another process. A handle says where in which process's file the memory is; the
 * importer maps that part into its own window. A table at a fixed place of that file tells the
 * importers whether the owner has freed it, and the owner whether somebody has it open.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

enum {
	SLOTS = 4096,
	MAGIC = 0x43534950,
	PAGE = 4096
};

struct ipc_slot {
	atomic_uint_fast64_t id; /* of the range; 0: free */
	atomic_int importers;
	atomic_int is_freed;
};

struct ipc_handle {
	uint32_t magic;
	int32_t pid, fd, device, slot;
	uint64_t slots_offset, offset, bytes, id;
};

_Static_assert(sizeof(struct ipc_handle) <= sizeof(CUipcMemHandle), "the handle must fit");

struct ipc_import {
	struct ipc_handle from;
	unsigned opened;
	struct ipc_slot *slots;
	uintptr_t window;
	size_t window_bytes;
};

static uintptr_t slots_at[DEVICES_MAX];

static struct ipc_slot *own_slots(int device)
{
	if (!slots_at[device])
		slots_at[device] =
			memory_window_take(device, SLOTS * sizeof(struct ipc_slot), PAGE);
	return memory_cpu(slots_at[device]);
}

CUresult ipc_export(struct range *r, CUipcMemHandle *out)
{
	struct ipc_handle h = {.magic = MAGIC,
			       .pid = getpid(),
			       .device = r->device,
			       .bytes = r->bytes,
			       .id = r->id};
	struct ipc_slot *slots;
	off_t offset;

	if (!has(CAP_IPC))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (r->kind != MEM_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	slots = own_slots(r->device);
	for (int i = 0; i < SLOTS && r->ipc_slot < 0; i++)
		if (atomic_load(&slots[i].id) == 0) {
			r->ipc_slot = i;
			atomic_store(&slots[i].importers, 0);
			atomic_store(&slots[i].is_freed, 0);
			atomic_store(&slots[i].id, r->id);
		}
	if (r->ipc_slot < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	h.slot = r->ipc_slot;
	memory_window_fd(r->device, slots_at[r->device], &offset);
	h.slots_offset = (uint64_t)offset;
	h.fd = memory_window_fd(r->device, r->base, &offset);
	h.offset = (uint64_t)offset;
	memset(out, 0, sizeof(*out));
	memcpy(out, &h, sizeof(h));
	return CUDA_SUCCESS;
}

void ipc_owner_freed(struct range *r)
{
	struct ipc_slot *s;

	if (r->ipc_slot < 0)
		return;
	s = &own_slots(r->device)[r->ipc_slot];
	atomic_store(&s->is_freed, 1);
	if (atomic_load(&s->importers) == 0)
		atomic_store(&s->id, 0);
	else
		sim_undefined(
			"memory %p was freed while another process had it open by an IPC handle",
			(void *)r->base);
}

bool ipc_is_gone(const struct range *r)
{
	const struct ipc_slot *s = &r->import->slots[r->import->from.slot];

	return atomic_load(&s->id) != r->import->from.id || atomic_load(&s->is_freed);
}

static struct ipc_import *map(struct context *ctx, const struct ipc_handle *h, CUresult *error)
{
	struct ipc_import *m = sim_alloc(sizeof(*m));
	uint64_t start = h->offset & ~(uint64_t)(PAGE - 1);
	char path[64];
	void *at;
	int fd;

	*error = CUDA_ERROR_INVALID_VALUE;
	m->from = *h;
	m->window_bytes = (h->offset + h->bytes - start + PAGE - 1) / PAGE * PAGE;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", h->pid, h->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		sim_say("an IPC handle of process %d cannot be opened: %s", h->pid,
			strerror(errno));
		free(m);
		return NULL;
	}
	*error = CUDA_ERROR_OUT_OF_MEMORY;
	m->slots = mmap(NULL, SLOTS * sizeof(struct ipc_slot), PROT_READ | PROT_WRITE, MAP_SHARED,
			fd, (off_t)h->slots_offset);
	m->window = memory_window_take(ctx->device, m->window_bytes, PAGE);
	at = m->slots == MAP_FAILED || !m->window
		     ? MAP_FAILED
		     : mmap(memory_cpu(m->window), m->window_bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_FIXED, fd, (off_t)start);
	close(fd);
	if (at == MAP_FAILED) {
		free(m);
		return NULL;
	}
	*error = CUDA_SUCCESS;
	return m;
}

struct ipc_list {
	struct range *range;
	struct ipc_list *next;
};
static struct ipc_list *imports;

CUresult ipc_import(struct context *ctx, const CUipcMemHandle *in, uintptr_t *out)
{
	struct ipc_import *m;
	struct ipc_handle h;
	struct ipc_list *l;
	struct range *r;
	CUresult e;

	memcpy(&h, in, sizeof(h));
	if (!has(CAP_IPC))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (h.magic != MAGIC || h.slot < 0 || h.slot >= SLOTS || h.bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (h.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT; /* not in the process that exported it */
	for (l = imports; l; l = l->next)
		if (memcmp(&l->range->import->from, &h, sizeof(h)) == 0 && l->range->ctx == ctx) {
			l->range->import->opened++;
			*out = l->range->base;
			return CUDA_SUCCESS;
		}
	m = map(ctx, &h, &e);
	if (!m)
		return e;
	m->opened = 1;
	r = memory_add(m->window + h.offset % PAGE, h.bytes, MEM_IPC, ctx->device, ctx);
	r->import = m;
	if (ipc_is_gone(r)) {
		memory_window_reset(ctx->device, m->window, m->window_bytes);
		memory_window_give(ctx->device, m->window, m->window_bytes);
		memory_remove(r);
		return CUDA_ERROR_INVALID_VALUE;
	}
	atomic_fetch_add(&m->slots[h.slot].importers, 1);
	l = sim_alloc(sizeof(*l));
	*l = (struct ipc_list){r, imports};
	imports = l;
	*out = r->base;
	return CUDA_SUCCESS;
}

CUresult ipc_close(uintptr_t base)
{
	struct range *r = memory_find_base(base);
	struct ipc_import *m;

	if (!r || r->kind != MEM_IPC)
		return CUDA_ERROR_INVALID_VALUE;
	m = r->import;
	if (--m->opened)
		return CUDA_SUCCESS;
	r->is_freed = true;
	context_wait(r->ctx);
	atomic_store(&r->is_live, false);
	atomic_fetch_sub(&m->slots[m->from.slot].importers, 1);
	for (struct ipc_list **l = &imports; *l; l = &(*l)->next)
		if ((*l)->range == r) {
			struct ipc_list *gone = *l;

			*l = gone->next;
			free(gone);
			break;
		}
	memory_window_reset(r->device, m->window, m->window_bytes);
	memory_window_give(r->device, m->window, m->window_bytes);
	memory_remove(r);
	return CUDA_SUCCESS;
}
