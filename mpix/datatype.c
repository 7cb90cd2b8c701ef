/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * datatype.c: the size of a datatype that is one contiguous run of bytes.
 *
 * Sizes of predefined types are kept in a table. A derived type is taken apart once, and the answer
 * kept on it as an attribute, which goes when the type goes: a handle alone may mean another type
 * later.
 */
#include <limits.h>
#include <stdlib.h>

#include "mpix_int.h"

_Atomic uint64_t mpix_type_cache[256];

/* The bytes of a type, in the order of its type map: one ascending run without gaps, or not. */
struct run {
	int64_t start, bytes;
};

static int is_run(MPI_Datatype type, struct run *run);

/* What blocks are made of. */
struct element {
	int is_run;
	struct run run;
	int64_t extent;
};

static struct element element_of(MPI_Datatype type)
{
	MPI_Count lb, extent;
	struct element e;

	e.is_run = is_run(type, &e.run);
	PMPI_Type_get_extent_x(type, &lb, &extent);
	e.extent = extent;
	return e;
}

/* Append a block of elements at disp to a run that grows at its end. 0 when there is a gap or a
 * step back. */
static int append(struct run *run, int64_t disp, int64_t length, const struct element *e)
{
	if (length == 0)
		return 1;
	if (!e->is_run)
		return 0;
	if (e->run.bytes == 0)
		return 1;
	if (length > 1 && e->extent != e->run.bytes)
		return 0;
	if (run->bytes == 0)
		run->start = disp + e->run.start;
	else if (disp + e->run.start != run->start + run->bytes)
		return 0;
	run->bytes += length * e->run.bytes;
	return 1;
}

/* A type taken apart: integers, addresses and large counts of its constructor as one row of
 * numbers. */
struct contents {
	int combiner;
	MPI_Count n_integers, n_addresses, n_large, n_types;
	int *integers;
	MPI_Aint *addresses;
	MPI_Count *large;
	MPI_Datatype *types;
	int64_t *v;
	void *memory;
};

static int open_contents(MPI_Datatype type, struct contents *c)
{
	size_t n, i = 0;

	PMPI_Type_get_envelope_c(type, &c->n_integers, &c->n_addresses, &c->n_large, &c->n_types,
				 &c->combiner);
	if (c->combiner == MPI_COMBINER_NAMED)
		return 1;
	n = (size_t)(c->n_integers + c->n_addresses + c->n_large);
	/* Five arrays, the widest elements first. */
	c->memory =
		malloc(n * 8 + (size_t)c->n_large * 8 + (size_t)c->n_addresses * 8 +
		       (size_t)c->n_integers * 4 + (size_t)c->n_types * sizeof(MPI_Datatype) + 8);
	if (c->memory == NULL)
		return 0;
	c->v = c->memory;
	c->large = (MPI_Count *)(c->v + n);
	c->addresses = (MPI_Aint *)(c->large + c->n_large);
	c->integers = (int *)(c->addresses + c->n_addresses);
	c->types = (MPI_Datatype *)(c->integers + c->n_integers);
	PMPI_Type_get_contents_c(type, c->n_integers, c->n_addresses, c->n_large, c->n_types,
				 c->integers, c->addresses, c->large, c->types);
	for (MPI_Count k = 0; k < c->n_integers; k++)
		c->v[i++] = c->integers[k];
	for (MPI_Count k = 0; k < c->n_addresses; k++)
		c->v[i++] = c->addresses[k];
	for (MPI_Count k = 0; k < c->n_large; k++)
		c->v[i++] = c->large[k];
	return 1;
}

static int is_named(MPI_Datatype type)
{
	MPI_Count a, b, c, d;
	int combiner;

	PMPI_Type_get_envelope_c(type, &a, &b, &c, &d, &combiner);
	return combiner == MPI_COMBINER_NAMED;
}

static void close_contents(struct contents *c)
{
	/* MPI gives handles of its own for the parts that are not predefined. */
	if (c->memory != NULL)
		for (MPI_Count i = 0; i < c->n_types; i++)
			if (!is_named(c->types[i]))
				PMPI_Type_free(&c->types[i]);
	free(c->memory);
}

static int whole_subarray(const struct contents *c, const struct element *e, struct run *run)
{
	int is_large = c->n_large > 0;
	int64_t dims = c->integers[0];
	int64_t elements = 1;

	for (int64_t i = 0; i < dims; i++) {
		int64_t size = is_large ? c->large[i] : c->integers[1 + i];
		int64_t part = is_large ? c->large[dims + i] : c->integers[1 + dims + i];
		int64_t first = is_large ? c->large[2 * dims + i] : c->integers[1 + 2 * dims + i];

		if (first != 0 || part != size)
			return 0;
		elements *= size;
	}
	return append(run, 0, elements, e);
}

static int struct_run(const struct contents *c, struct run *run)
{
	int64_t n = c->v[0];

	for (int64_t i = 0; i < n; i++) {
		struct element e = element_of(c->types[i]);

		if (!append(run, c->v[1 + n + i], c->v[1 + i], &e))
			return 0;
	}
	return 1;
}

/* n blocks at displacements in units; length_step 0: all of lengths[0], 1: a length each. */
static int blocks_run(const int64_t *lengths, int length_step, const int64_t *disps, int64_t n,
		      int64_t unit, const struct element *e, struct run *run)
{
	for (int64_t i = 0; i < n; i++)
		if (!append(run, disps[i] * unit, lengths[i * length_step], e))
			return 0;
	return 1;
}

static int vector_run(const int64_t *v, int64_t unit, const struct element *e, struct run *run)
{
	for (int64_t i = 0; i < v[0]; i++)
		if (!append(run, i * v[2] * unit, v[1], e))
			return 0;
	return 1;
}

/* The layout of the row v is the same for a constructor and its _c form, but for subarrays. */
static int contents_run(const struct contents *c, struct run *run)
{
	const int64_t *v = c->v;
	struct element e = {0};

	if (c->combiner == MPI_COMBINER_STRUCT)
		return struct_run(c, run);
	if (c->n_types != 1)
		return 0;
	e = element_of(c->types[0]);
	switch (c->combiner) {
	case MPI_COMBINER_DUP:
	case MPI_COMBINER_RESIZED:
		return append(run, 0, 1, &e);
	case MPI_COMBINER_CONTIGUOUS:
		return append(run, 0, v[0], &e);
	case MPI_COMBINER_VECTOR:
		return vector_run(v, e.extent, &e, run);
	case MPI_COMBINER_HVECTOR:
		return vector_run(v, 1, &e, run);
	case MPI_COMBINER_INDEXED:
		return blocks_run(v + 1, 1, v + 1 + v[0], v[0], e.extent, &e, run);
	case MPI_COMBINER_HINDEXED:
		return blocks_run(v + 1, 1, v + 1 + v[0], v[0], 1, &e, run);
	case MPI_COMBINER_INDEXED_BLOCK:
		return blocks_run(v + 1, 0, v + 2, v[0], e.extent, &e, run);
	case MPI_COMBINER_HINDEXED_BLOCK:
		return blocks_run(v + 1, 0, v + 2, v[0], 1, &e, run);
	case MPI_COMBINER_SUBARRAY:
		return whole_subarray(c, &e, run);
	default:
		return 0;
	}
}

static int is_run(MPI_Datatype type, struct run *run)
{
	struct contents c = {0};
	MPI_Count lb, extent, size;
	int ok;

	run->start = 0;
	run->bytes = 0;
	if (!open_contents(type, &c))
		return 0;
	if (c.combiner == MPI_COMBINER_NAMED) {
		/* Pairs such as MPI_DOUBLE_INT are named and have gaps. */
		PMPI_Type_get_extent_x(type, &lb, &extent);
		PMPI_Type_size_x(type, &size);
		run->bytes = size;
		return lb == 0 && extent == size;
	}
	ok = contents_run(&c, run);
	close_contents(&c);
	return ok;
}

/* Bytes of an element, or -1 when elements do not follow one another without gaps. */
static int64_t contiguous_size(MPI_Datatype type)
{
	MPI_Count lb, extent;
	struct run run;

	if (!is_run(type, &run))
		return -1;
	PMPI_Type_get_extent_x(type, &lb, &extent);
	if (run.bytes > 0 && (run.start != 0 || lb != 0 || extent != run.bytes))
		return -1;
	return run.bytes;
}

/* MPICH's handles: bits 26 to 29 of a datatype are 3; MPICH may abort on others. */
static int looks_like_type(MPI_Datatype type)
{
	return ((uint32_t)type & 0x3c000000u) == 0x0c000000u && type != MPI_DATATYPE_NULL;
}

int64_t mpix_type_size_slow(MPI_Datatype type, const char **why)
{
	MPI_Count bytes;
	int64_t size;
	void *kept;
	int named, flag = 0;

	*why = "not a datatype, or not committed";
	/* The cheapest call that looks at a type with error return: is it one, has it been
	 * committed? */
	if (!looks_like_type(type) ||
	    PMPI_Pack_size_c(1, type, mpix_private_comm, &bytes) != MPI_SUCCESS)
		return -MPI_ERR_TYPE;
	named = is_named(type);
	if (!named)
		PMPI_Type_get_attr(type, mpix_type_keyval, &kept, &flag);
	size = flag ? (intptr_t)kept : contiguous_size(type);
	if (!named && !flag)
		PMPI_Type_set_attr(type, mpix_type_keyval, (void *)(intptr_t)size);
	else if (named && size >= 0)
		/* Relaxed: one word, complete in itself. */
		atomic_store_explicit(&mpix_type_cache[(uint32_t)type & 255],
				      (uint64_t)(uint32_t)type << 32 | (uint32_t)(size + 1),
				      memory_order_relaxed);
	if (size >= 0)
		return size;
	*why = "a derived datatype that is not contiguous: not supported yet on a stream "
	       "communicator";
	return -MPI_ERR_TYPE;
}
