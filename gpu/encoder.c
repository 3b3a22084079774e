/* SPDX-License-Identifier: BSD-3-Clause
 * See encoder.h. */
#include "gpu/encoder.h"
#include "gpu/failure.h"
#include <stdlib.h>

enum { THREADS = 256, WARPS_OF_BLOCK = 8, SEAL_BLOCKS_EACH = 2, ENTRY_WORDS = 2 };

struct encoder {
	uint8_t *widths; /* bit widths of all parts' delta blocks */
	/* The number of blocks of each kernel that fit on a multiprocessor. */
	unsigned pack_each, quantize_each, dense_each;
	struct checksum_powers power;
};

size_t encoder_widths(uint32_t room, size_t parts)
{
	return room / DELTA_BLOCK + parts + 1;
}

int encoder_open(uint8_t *widths, struct encoder **out)
{
	struct encoder *e = *out = calloc(1, sizeof(*e));
	int packing, quantizing, dense;

	if (!e)
		return cuda_refuse("no memory for a compressor");
	if (cuda_check(pack_push_residents(&packing), "loading the kernel pack") ||
	    cuda_check(quantize_push_residents(&quantizing), "loading the kernel quantize") ||
	    cuda_check(dense_push_residents(&dense), "loading the kernel dense"))
		return -1;
	e->widths = widths;
	e->pack_each = (unsigned)packing;
	e->quantize_each = (unsigned)quantizing;
	e->dense_each = (unsigned)dense;
	checksum_powers(&e->power);
	return 0;
}

void encoder_close(struct encoder **encoder)
{
	free(*encoder);
	*encoder = NULL;
}

static struct value_coding coding_of(const struct encoding *what)
{
	const struct device_values *values = &what->push->values;

	return (struct value_coding){ (enum value_type)values->type, values->bits, values->block,
				      0 };
}

/* Returns the grid for all parts. wanted: the number of blocks that is enough for all entries
 * together. */
static unsigned encoding_grid(const struct encoding *what, unsigned wanted, unsigned blocks_each)
{
	return fewer_blocks(push_grid(what->parts, wanted, what->of.multiprocessors, blocks_each),
			    what->of.blocks);
}

/* Returns the largest number of entries that the messages of a push can have together. */
static uint32_t most_entries(const struct encoding *what)
{
	const uint32_t room = what->of.room;
	uint64_t sum = 0;

	for (size_t i = 0; i < what->parts; i++)
		sum += what->push->parts[i].capacity;
	return sum < room ? (uint32_t)sum : room;
}

/* Encodes the values of all parts if they are in few bits. If index is NULL, value is the whole
 * vector. */
static int quantize_parts(const struct encoder *e, const struct encoding *what,
			  const uint32_t *index, float *value, uint32_t most)
{
	const struct device_values *values = &what->push->values;
	const struct push_quantize_args args = { .index = index,
						 .value = value,
						 .place = what->place,
						 .part = what->part,
						 .parts = what->parts,
						 .coding = coding_of(what),
						 .most = &what->summary->largest,
						 .stream = { values->purpose, values->rank,
							     values->step, values->seed },
						 .first = values->first };
	const unsigned wanted = quantize_grid(most, what->of.multiprocessors, e->quantize_each);

	if (!value_few_bits(args.coding.type))
		return 0;
	return cuda_check(quantize_push_enqueue(&args,
						encoding_grid(what, wanted, e->quantize_each),
						what->stream),
			  "starting the kernel quantize");
}

int encoder_pack(const struct encoder *e, const struct encoding *what)
{
	const struct selector_view *v = &what->of;
	const struct push_pack_args args = { .index = v->index,
					     .value = v->value,
					     .place = what->place,
					     .part = what->part,
					     .parts = what->parts,
					     .values = coding_of(what),
					     .densest = what->push->densest,
					     .block_sums = v->block_sums,
					     .widths = e->widths };
	const uint32_t most = most_entries(what);
	const unsigned wanted = pack_grid(most, DELTA_BLOCK, WARPS_OF_BLOCK, v->multiprocessors,
					  e->pack_each);

	if (cuda_check(pack_push_enqueue(&args, encoding_grid(what, wanted, e->pack_each),
					 what->stream),
		       "starting the kernel pack") ||
	    quantize_parts(e, what, v->index, v->value, most))
		return -1;
	return encoder_seal(e, what, (uint64_t)most * ENTRY_WORDS);
}

int encoder_dense(const struct encoder *e, const struct encoding *what, int folded)
{
	const struct selector_view *v = &what->of;
	const struct device_select *call = &what->push->select;
	const struct push_dense_args args = { .grad = call->grad,
					      .grad_type = (enum value_type)call->grad_type,
					      .grad_scale = call->grad_scale,
					      .scale = call->scale,
					      .adds = !folded,
					      .keep = !call->fresh,
					      .judge = call->judge,
					      .sends_left = what->push->sends_left,
					      .residual = call->residual,
					      .n = v->n,
					      .place = what->place,
					      .part = what->part,
					      .parts = what->parts,
					      .values = coding_of(what),
					      .summary = what->summary,
					      .barrier = v->barrier };
	const unsigned wanted = list_grid(v->n, THREADS, v->multiprocessors, e->dense_each);

	if (cuda_check(dense_push_enqueue(&args, encoding_grid(what, wanted, e->dense_each),
					  what->stream),
		       "starting the kernel dense"))
		return -1;
	return quantize_parts(e, what, NULL, call->residual, v->n);
}

/* A few blocks per multiprocessor saturate the bus. There must be no more blocks than powers. */
int encoder_seal(const struct encoder *e, const struct encoding *what, uint64_t words)
{
	const unsigned wanted = list_grid(words, THREADS, what->of.multiprocessors,
					  SEAL_BLOCKS_EACH);
	const unsigned grid = fewer_blocks(encoding_grid(what, wanted, SEAL_BLOCKS_EACH),
					   CHECKSUM_FAR - 1);
	const struct seal_args args = {
		.place = what->place, .part = what->part, .parts = what->parts, .power = e->power
	};

	return cuda_check(seal_enqueue(&args, grid, what->stream), "starting the kernel seal");
}
