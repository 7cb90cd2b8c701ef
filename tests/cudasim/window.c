/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window.c: each device's addresses. A window without access is what programs see: the CPU faults
 * when it touches it, and so does a system call. The same memory, at a constant distance, is the
 * simulator's own: a file in memory, mapped shared, so that another process can map a part of it
 * (ipc.c).
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

static const size_t window_bytes = (size_t)64 << 30;

struct hole {
	uintptr_t base;
	size_t bytes;
};

static struct window {
	uintptr_t base;
	ptrdiff_t to_cpu;
	int fd;
	struct hole *holes; /* sorted */
	unsigned hole_count;
	size_t taken;
} windows[DEVICES_MAX];

static bool is_ready;

static void insert_hole(struct window *w, unsigned at, struct hole h)
{
	w->holes = sim_grow(w->holes, w->hole_count, sizeof(*w->holes));
	memmove(&w->holes[at + 1], &w->holes[at], (w->hole_count - at) * sizeof(h));
	w->holes[at] = h;
	w->hole_count++;
}

static void drop_hole(struct window *w, unsigned at)
{
	w->hole_count--;
	memmove(&w->holes[at], &w->holes[at + 1], (w->hole_count - at) * sizeof(*w->holes));
}

static CUresult open_window(struct window *w)
{
	void *user, *cpu;

	w->fd = memfd_create("cudasim", MFD_CLOEXEC);
	if (w->fd < 0 || ftruncate(w->fd, (off_t)window_bytes) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	user = mmap(NULL, window_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		    0);
	cpu = mmap(NULL, window_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, w->fd,
		   0);
	if (user == MAP_FAILED || cpu == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	madvise(cpu, window_bytes, MADV_DONTDUMP);
	w->base = (uintptr_t)user;
	w->to_cpu = (ptrdiff_t)((uintptr_t)cpu - w->base);
	insert_hole(w, 0, (struct hole){w->base, window_bytes});
	return CUDA_SUCCESS;
}

CUresult memory_init(void)
{
	if (is_ready)
		return CUDA_SUCCESS;
	for (unsigned long i = 0; i < sim_config.devices; i++)
		if (open_window(&windows[i]) != CUDA_SUCCESS) {
			sim_say("no address space for device memory (%zu GiB twice for each "
				"device)",
				window_bytes >> 30);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	is_ready = true;
	return CUDA_SUCCESS;
}

/* The first hole that is large enough. */
uintptr_t memory_window_take(int device, size_t bytes, size_t alignment)
{
	struct window *w = &windows[device];

	for (unsigned i = 0; i < w->hole_count; i++) {
		struct hole h = w->holes[i];
		uintptr_t base = (h.base + alignment - 1) & ~(uintptr_t)(alignment - 1);
		size_t front = base - h.base;

		if (h.bytes < front || h.bytes - front < bytes)
			continue;
		drop_hole(w, i);
		if (h.bytes - front > bytes)
			insert_hole(w, i, (struct hole){base + bytes, h.bytes - front - bytes});
		if (front)
			insert_hole(w, i, (struct hole){h.base, front});
		w->taken += bytes;
		return base;
	}
	return 0;
}

void memory_window_give(int device, uintptr_t base, size_t bytes)
{
	struct window *w = &windows[device];
	unsigned i = 0;

	while (i < w->hole_count && w->holes[i].base < base)
		i++;
	insert_hole(w, i, (struct hole){base, bytes});
	w->taken -= bytes;
	if (i + 1 < w->hole_count && base + bytes == w->holes[i + 1].base) {
		w->holes[i].bytes += w->holes[i + 1].bytes;
		drop_hole(w, i + 1);
	}
	if (i > 0 && w->holes[i - 1].base + w->holes[i - 1].bytes == base) {
		w->holes[i - 1].bytes += w->holes[i].bytes;
		drop_hole(w, i);
	}
	if (bytes >= (size_t)1 << 20)
		madvise(memory_cpu(base), bytes, MADV_REMOVE);
}

int memory_window_of(uintptr_t address)
{
	for (unsigned long i = 0; is_ready && i < sim_config.devices; i++)
		if (address >= windows[i].base && address - windows[i].base < window_bytes)
			return (int)i;
	return -1;
}

int memory_window_fd(int device, uintptr_t address, off_t *offset)
{
	*offset = (off_t)(address - windows[device].base);
	return windows[device].fd;
}

/* Another file was mapped there: the window's own again. */
void memory_window_reset(int device, uintptr_t base, size_t bytes)
{
	const struct window *w = &windows[device];

	if (mmap(memory_cpu(base), bytes, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED | MAP_NORESERVE, w->fd,
		 (off_t)(base - w->base)) == MAP_FAILED)
		sim_say("a part of device %d's window is lost", device);
}

void *memory_cpu(uintptr_t address)
{
	int device = memory_window_of(address);

	if (device < 0)
		return (void *)address;
	return (void *)(address + (uintptr_t)windows[device].to_cpu);
}

size_t memory_in_use(int device)
{
	return windows[device].taken;
}
