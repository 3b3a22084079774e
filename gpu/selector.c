/* SPDX-License-Identifier: BSD-3-Clause
 * See selector.h. A selector is one allocation on the device, which plan.c divides. Nothing is
 * allocated after it is opened. Hints stay on the device: a kernel reads the last one and writes
 * the next. */
#include "gpu/selector.h"
#include "gpu/apply.h"
#include "gpu/change.h"
#include "gpu/compressor.h"
#include "gpu/context.h"
#include "gpu/failure.h"
#include "gpu/fold.h"
#include "gpu/pack.h"
#include "gpu/quantize.h"
#include "gpu/topk.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { APPLY_BLOCK = 256, APPLY_BLOCKS_EACH = 8, SELECT_WARPS = 8 };

/* The content of the device memory at plan.state. */
struct selector_state {
	struct topk_state state;
	struct select_hint hint;
	struct quantize_state quantize;
};

struct device_selector {
	struct select_plan plan;
	unsigned multiprocessors, grid, gaussian_grid, draw_grid, block_grid, fold_grid,
		pack_residents, quantize_residents;
	unsigned blocks; /* the most blocks per kernel; 0: any number */
	int device;
	uint32_t n_exempt, exempt_coordinates;
	uint8_t *memory;
};

static int enter_device(const struct device_selector *s, int *before)
{
	return device_enter(s->device, before);
}

static int leave_device(const struct device_selector *s, int before, int rc)
{
	return device_leave(s->device, before, rc);
}

static void *part(const struct device_selector *s, size_t offset)
{
	return s->memory + offset;
}

static int allocate_memory(struct device_selector *s, const struct device_span *exempt)
{
	int multiprocessors, blocks_each, gaussian_each, draw_each, block_each, fold_each,
		packing_each, quantizing_each;

	if (cuda_check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount,
					      s->device),
		       "asking for multiprocessors") ||
	    cuda_check(topk_residents(&blocks_each), "loading the kernel topk") ||
	    cuda_check(gaussian_residents(&gaussian_each), "loading the kernel gaussian") ||
	    cuda_check(draw_residents(&draw_each), "loading the kernel draw") ||
	    cuda_check(block_topk_residents(&block_each), "loading the kernel block_topk") ||
	    cuda_check(fold_residents(&fold_each), "loading the kernel fold") ||
	    cuda_check(quantize_residents(&quantizing_each), "loading the kernel quantize") ||
	    cuda_check(pack_residents(&packing_each), "loading the kernel pack") ||
	    cuda_check(parts_load(), "loading the kernels split, seal, settle and report") ||
	    cuda_check(apply_load(), "loading the kernels apply and gather") ||
	    cuda_check(change_load(), "loading the kernel change"))
		return -1;
	s->multiprocessors = (unsigned)multiprocessors;
	s->pack_residents = (unsigned)packing_each;
	s->quantize_residents = (unsigned)quantizing_each;
	s->grid = fewer_blocks(
		select_grid(s->plan.tiles, SELECT_WARPS, s->multiprocessors, (unsigned)blocks_each),
		s->blocks);
	s->gaussian_grid = fewer_blocks(select_grid(s->plan.tiles, SELECT_WARPS, s->multiprocessors,
						    (unsigned)gaussian_each),
					s->blocks);
	s->draw_grid = fewer_blocks(
		select_grid(s->plan.tiles, SELECT_WARPS, s->multiprocessors, (unsigned)draw_each),
		s->blocks);
	s->block_grid = fewer_blocks(
		select_grid(s->plan.tiles, SELECT_WARPS, s->multiprocessors, (unsigned)block_each),
		s->blocks);
	s->fold_grid = fewer_blocks(
		select_grid(s->plan.tiles, SELECT_WARPS, s->multiprocessors, (unsigned)fold_each),
		s->blocks);
	if (cuda_check(cudaMalloc((void **)&s->memory, s->plan.bytes), "allocating a selector"))
		return -1;
	cudaStream_t own;
	if (capture_stream_open(&own))
		return -1;
	/* Zeroes the hint, because no step was made yet. */
	const int rc = cuda_check(cudaMemsetAsync(part(s, s->plan.state), 0,
						  sizeof(struct selector_state), own),
				  "clearing a selector") ||
				       (s->n_exempt &&
					cuda_check(cudaMemcpyAsync(part(s, s->plan.exempt), exempt,
								   s->n_exempt * sizeof(*exempt),
								   cudaMemcpyDefault, own),
						   "copying spans")) ?
			       -1 :
			       0;
	return capture_stream_close(own, rc, "clearing a selector");
}

int cuda_selector_open(const struct device_shape *shape, struct device_selector **out)
{
	const struct device_span *exempt = shape->exempt;
	const size_t n = shape->n, n_exempt = shape->n_exempt;
	const int device = shape->device;
	enum cudaStreamCaptureMode mode;
	struct device_selector *s;
	uint32_t coordinates = 0;
	int before, rc;

	if (n > UINT32_MAX)
		return cuda_refuse(
			"a selector cannot be opened for %zu coordinates: the maximum is %u", n,
			UINT32_MAX);
	s = calloc(1, sizeof(*s));
	if (!s)
		return cuda_refuse("no memory for a selector");
	for (size_t i = 0; i < n_exempt; i++)
		coordinates += exempt[i].end - exempt[i].begin;
	s->n_exempt = (uint32_t)n_exempt;
	s->exempt_coordinates = coordinates;
	s->plan = select_plan(n, shape->k, coordinates, n_exempt, sizeof(struct selector_state),
			      sizeof(struct pack_state));
	s->device = device;
	s->blocks = shape->blocks;
	if (enter_device(s, &before)) {
		free(s);
		return -1;
	}
	capture_allow(&mode);
	rc = allocate_memory(s, exempt);
	capture_restore(mode);
	if (leave_device(s, before, rc)) {
		cuda_selector_close(&s);
		return -1;
	}
	*out = s;
	return 0;
}

void cuda_selector_close(struct device_selector **selector)
{
	enum cudaStreamCaptureMode mode;

	if (!selector || !*selector)
		return;
	capture_allow(&mode);
	if (cudaFree((*selector)->memory) != cudaSuccess) /* cudaFree() accepts memory of any
							     device */
		cudaGetLastError();
	capture_restore(mode);
	free(*selector);
	*selector = NULL;
}

/* Returns the key of the smallest selected magnitude. It is never the key of zero. */
static uint32_t level_key(float level)
{
	uint32_t key = key_of(level);

	return level > 0 && key ? key : 1;
}

static int copy_to_host(void *to, const void *from, size_t bytes, void *stream, const char *what)
{
	if (!bytes)
		return 0;
	return cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), what);
}

static int launch(struct device_selector *s, const struct device_select *call,
		  const struct topk_args *args, void *stream)
{
	if (call->gaussian)
		return cuda_check(gaussian_enqueue(args, s->gaussian_grid, stream),
				  "starting the kernel gaussian");
	if (call->block)
		return cuda_check(block_topk_enqueue(args, s->block_grid, stream),
				  "starting the kernel block_topk");
	if (call->draw)
		return cuda_check(draw_enqueue(args, s->draw_grid, stream),
				  "starting the kernel draw");
	return cuda_check(topk_enqueue(args, s->grid, stream), "starting the kernel topk");
}

/* Returns 1 if, before the selection, the gradient must be processed and not only added. */
static int needs_fold(const struct device_select *call)
{
	return call->velocity || call->clip > 0 || call->zero;
}

static int folds(const struct device_selection *selection)
{
	return !selection->x && needs_fold(&selection->call);
}

static int clear_state(struct device_selector *s, void *stream)
{
	struct selector_state *there = part(s, s->plan.state);

	return cuda_check(cudaMemsetAsync(&there->state, 0, sizeof(there->state), stream),
			  "clearing a selector");
}

static int enqueue_fold(struct device_selector *s, const struct device_select *call, void *stream)
{
	struct selector_state *there = part(s, s->plan.state);
	const struct fold_args f = { .grad = call->grad,
				     .grad_type = (enum value_type)call->grad_type,
				     .grad_scale = call->grad_scale,
				     .scale = call->scale,
				     .judge = call->judge,
				     .zero = call->zero,
				     .clip = call->clip,
				     .residual = call->residual,
				     .keep = !call->fresh,
				     .velocity = call->velocity,
				     .momentum = call->momentum,
				     .n = (uint32_t)s->plan.n,
				     .state = &there->state,
				     .tile_sums = part(s, s->plan.tile_sums),
				     .group_sums = part(s, s->plan.group_sums) };

	return cuda_check(fold_enqueue(&f, s->fold_grid, stream), "starting the kernel fold");
}

static int enqueue_kernels(struct device_selector *s, const struct device_selection *selection,
			   const struct topk_args *args, void *stream)
{
	const struct device_select *call = &selection->call;
	const struct gather_args gather = { .vector = selection->x ? selection->x : call->residual,
					    .index = args->index,
					    .value = args->value,
					    .count = call->listed,
					    .found = &args->state->found,
					    .refused = call->judge ? &args->state->nonfinite :
								     NULL };
	const unsigned grid = list_grid(call->listed, APPLY_BLOCK, s->multiprocessors,
					APPLY_BLOCKS_EACH);

	if (clear_state(s, stream) || (folds(selection) && enqueue_fold(s, call, stream)) ||
	    (call->fresh && !folds(selection) && args->n &&
	     cuda_check(cudaMemsetAsync(args->residual, 0, args->n * sizeof(float), stream),
			"clearing a residual")) ||
	    (call->list && copy_to_host(args->index, call->list, call->listed * sizeof(*call->list),
					stream, "copying indices to the device")) ||
	    launch(s, call, args, stream))
		return -1;
	/* With a list, the coordinates are the caller's and nothing is selected. */
	return call->list ?
		       cuda_check(gather_enqueue(&gather, fewer_blocks(grid, s->blocks), stream),
				  "starting the kernel gather") :
		       0;
}

/* Returns the most coordinates that a selection by blocks can take. */
static uint64_t most_of_blocks(const struct device_selector *s, const struct device_select *call)
{
	const uint64_t n = s->plan.n, blocks = (n + call->block - 1) / call->block;

	return blocks * call->k < n ? blocks * call->k : n;
}

int cuda_select(struct device_selector *s, const struct device_selection *selection, void *stream)
{
	const struct device_select *call = &selection->call;
	struct selector_state *there = part(s, s->plan.state);
	struct topk_args args = {
		.x = selection->x,
		.residual = call->residual,
		.grad = call->grad,
		.grad_type = (enum value_type)call->grad_type,
		.grad_scale = call->grad_scale,
		.scale = call->scale,
		/* With x, the selection adds nothing. */
		.adds = !selection->x && !folds(selection),
		.clear = selection->clear && !selection->x,
		.judge = selection->x || folds(selection) ? DEVICE_JUDGE_NOT : call->judge,
		.by_level = call->by_level,
		.n = (uint32_t)s->plan.n,
		.k = (uint32_t)(call->k < s->plan.n || call->block ? call->k : s->plan.n),
		.block = call->block,
		.exempt = part(s, s->plan.exempt),
		.n_exempt = s->n_exempt,
		.exempt_coordinates = s->exempt_coordinates,
		.level = level_key(call->level),
		.state = &there->state,
		.quantile = call->quantile,
		.draw = { call->draw,
			  call->wanted,
			  { call->purpose, call->rank, call->step, call->seed } },
		.tile_sums = part(s, s->plan.tile_sums),
		.group_sums = part(s, s->plan.group_sums),
		.hint = call->by_level || selection->forget ? NULL : &there->hint,
		.block_sums = part(s, s->plan.block_sums),
		.first = part(s, s->plan.first),
		.counts = part(s, s->plan.counts),
		.candidates.index = part(s, s->plan.candidate_index),
		.candidates.value = part(s, s->plan.candidate_value),
		.index = part(s, s->plan.index),
		.value = part(s, s->plan.value),
		.room = s->plan.room
	};

	int before;

	if (call->list) {
		args.k = args.n_exempt = args.exempt_coordinates = 0;
		args.hint = NULL;
	}
	if (call->list && cuda_ready(stream))
		return -1;
	if (call->list && call->listed > s->plan.room)
		return cuda_refuse("the list has %u coordinates, but the selector has room for %u",
				   call->listed, s->plan.room);
	if (call->block && call->block < SELECT_BLOCK_ON_DEVICE)
		return cuda_refuse("the blocks have %u coordinates, but a GPU selects only from "
				   "blocks of at least %d",
				   call->block, SELECT_BLOCK_ON_DEVICE);
	if (call->block && most_of_blocks(s, call) > s->plan.k)
		return cuda_refuse("k is %u in each block of %u coordinates, but the selector was "
				   "opened for %zu in total",
				   args.k, call->block, s->plan.k);
	if (!call->by_level && !call->block && args.k > s->plan.k)
		return cuda_refuse("k is %u, but the selector was opened for %zu", args.k,
				   s->plan.k);
	if (call->by_level && isnan(call->level))
		return cuda_refuse("the level is NaN");
	if ((call->draw || call->fresh) && selection->x)
		return cuda_refuse("cannot draw at random, or clear the residual first, from a "
				   "read-only vector");
	if (enter_device(s, &before))
		return -1;
	return leave_device(s, before, enqueue_kernels(s, selection, &args, stream));
}

int selector_fold(struct device_selector *s, const struct device_select *call, int *folded,
		  void *stream)
{
	int before;

	*folded = needs_fold(call);
	if (enter_device(s, &before))
		return -1;
	return leave_device(
		s, before,
		clear_state(s, stream) || (*folded && enqueue_fold(s, call, stream)) ? -1 : 0);
}

static int take_selected(struct device_selector *s, uint32_t *index, float *value,
			 struct device_selected *out, void *stream)
{
	const struct selector_state *there = part(s, s->plan.state);
	const size_t bytes = offsetof(struct topk_state, barrier);
	struct topk_state state;

	if (copy_to_host(&state, &there->state, bytes, stream, "copying the result of topk") ||
	    cuda_check(cudaStreamSynchronize(stream), "the kernel topk, or an earlier one,"))
		return -1;
	*out = (struct device_selected){ .n = state.found,
					 .nan = state.nan != 0,
					 .passes = state.passes,
					 .largest = bits_float(state.largest),
					 .nonfinite = state.nonfinite,
					 .first_nonfinite = (uint32_t)~state.inverted_first };
	if (out->n > s->plan.room) {
		out->overfull = 1;
		out->n = 0;
	}
	if (copy_to_host(index, part(s, s->plan.index), out->n * sizeof(*index), stream,
			 "copying the result of topk") ||
	    (value && copy_to_host(value, part(s, s->plan.value), out->n * sizeof(*value), stream,
				   "copying the result of topk")))
		return -1;
	return cuda_check(cudaStreamSynchronize(stream), "copying the result of topk");
}

int cuda_selected(struct device_selector *s, uint32_t *index, float *value,
		  struct device_selected *out, void *stream)
{
	int before;

	if (enter_device(s, &before))
		return -1;
	return leave_device(s, before, take_selected(s, index, value, out, stream));
}

/* ---- messages -------------------------------------------------------------- */

int cuda_pack(struct device_selector *s, const struct device_pack *call, void *stream)
{
	struct pack_args args = { .index = call->index,
				  .value = call->value,
				  .decoded = call->decoded,
				  .payload = call->payload,
				  .base = call->base,
				  .count = call->count,
				  .span = call->span,
				  .values = { .type = (enum value_type)call->value_type },
				  .densest = call->densest,
				  .state = part(s, s->plan.packing),
				  .block_sums = part(s, s->plan.block_sums),
				  .widths = part(s, s->plan.widths) };
	unsigned grid = pack_grid(args.count, DELTA_BLOCK, SELECT_WARPS, s->multiprocessors,
				  s->pack_residents);
	int before;

	if (value_few_bits(args.values.type))
		return cuda_refuse("values of type %d cannot be packed separately",
				   call->value_type);
	if (args.count > s->plan.room)
		return cuda_refuse("there are %u entries to pack, but the selector has room for %u",
				   args.count, s->plan.room);
	if (enter_device(s, &before))
		return -1;
	return leave_device(
		s, before,
		cuda_check(cudaMemsetAsync(args.state, 0, sizeof(*args.state), stream),
			   "clearing a pack") ||
				cuda_check(
					pack_enqueue(&args, fewer_blocks(grid, s->blocks), stream),
					"starting the kernel pack") ?
			-1 :
			0);
}

static int take_packed(struct device_selector *s, struct device_packed *out, void *stream)
{
	struct pack_state state;

	if (copy_to_host(&state, part(s, s->plan.packing), offsetof(struct pack_state, barrier),
			 stream, "copying the result of pack") ||
	    cuda_check(cudaStreamSynchronize(stream), "the kernel pack, or an earlier one,"))
		return -1;
	*out = (struct device_packed){ (int)state.coding, state.payload_bytes, state.scale };
	return 0;
}

int cuda_packed(struct device_selector *s, struct device_packed *out, void *stream)
{
	int before;

	/* NULL would mean the default stream of whichever device is current. */
	if (enter_device(s, &before))
		return -1;
	return leave_device(s, before, take_packed(s, out, stream));
}

/* ---- values in few bits ---------------------------------------------------- */

int quantize_refuse(const struct value_coding *c)
{
	const int uniform = c->type == VALUE_UNIFORM;
	const unsigned bits = value_bits(c->type);

	if ((!uniform && c->type != VALUE_GRID && !bits) || c->bits < 1 ||
	    c->bits > VALUE_BITS_MAX ||
	    (uniform && (c->block < 8 || c->block % 8 || c->block > UNIFORM_BLOCK_MAX)) ||
	    (bits && (c->bits != bits || c->block != UNIFORM_BLOCK)))
		return cuda_refuse(
			"a GPU cannot encode values of type %d in %u bits and blocks of %u",
			(int)c->type, c->bits, c->block);
	return 0;
}

static int enqueue_quantize(const struct quantize_args *args, unsigned grid, void *stream)
{
	if (cuda_check(cudaMemsetAsync(args->state, 0, sizeof(*args->state), stream),
		       "clearing a quantisation"))
		return -1;
	return cuda_check(quantize_enqueue(args, grid, stream), "starting the kernel quantize");
}

int cuda_quantize(struct device_selector *s, const struct device_quantize *call, void *stream)
{
	struct selector_state *there = part(s, s->plan.state);
	const struct quantize_args args = {
		.index = call->index,
		.value = call->value,
		.decoded = call->decoded,
		.out = call->out,
		.count = call->count,
		.range = call->range,
		.first = call->first,
		.coding = { (enum value_type)call->value_type, call->bits, call->block, 0 },
		.stream = { call->purpose, call->rank, call->step, call->seed },
		.state = &there->quantize
	};
	int before;

	if (quantize_refuse(&args.coding))
		return -1;
	if (enter_device(s, &before))
		return -1;
	return leave_device(
		s, before,
		enqueue_quantize(&args,
				 fewer_blocks(quantize_grid(call->count, s->multiprocessors,
							    s->quantize_residents),
					      s->blocks),
				 stream));
}

static int take_quantized(struct device_selector *s, float *scale, void *stream)
{
	const struct selector_state *there = part(s, s->plan.state);

	if (copy_to_host(scale, &there->quantize.scale, sizeof(*scale), stream,
			 "copying the result of quantize"))
		return -1;
	return cuda_check(cudaStreamSynchronize(stream), "the kernel quantize, or an earlier one,");
}

int cuda_quantized(struct device_selector *s, float *scale, void *stream)
{
	int before;

	if (enter_device(s, &before))
		return -1;
	return leave_device(s, before, take_quantized(s, scale, stream));
}

/* ---- sparse updates -------------------------------------------------------- */

int selector_apply(struct device_selector *s, const struct device_apply *args, void *stream)
{
	const unsigned grid = list_grid(args->count, APPLY_BLOCK, s->multiprocessors,
					APPLY_BLOCKS_EACH);
	int before;

	if (!args->count)
		return 0;
	if (enter_device(s, &before))
		return -1;
	return leave_device(s, before,
			    cuda_check(apply_enqueue(args, fewer_blocks(grid, s->blocks), stream),
				       "starting the kernel apply"));
}

int selector_change(struct device_selector *s, const struct device_change *call, void *stream)
{
	const unsigned grid = list_grid(call->count, APPLY_BLOCK, s->multiprocessors,
					APPLY_BLOCKS_EACH);
	int before;

	if (enter_device(s, &before))
		return -1;
	return leave_device(s, before,
			    cuda_check(change_enqueue(call, fewer_blocks(grid, s->blocks), stream),
				       "starting the kernel change"));
}

/* ---- functions for compressor.c ---------------------------------------------- */

struct selector_view selector_view(const struct device_selector *s)
{
	struct selector_state *there = part(s, s->plan.state);

	return (struct selector_view){ .device = s->device,
				       .n = (uint32_t)s->plan.n,
				       .blocks = s->blocks,
				       .multiprocessors = s->multiprocessors,
				       .selection = &there->state,
				       .barrier = &there->state.barrier,
				       .index = part(s, s->plan.index),
				       .value = part(s, s->plan.value),
				       .room = s->plan.room,
				       .marks = part(s, s->plan.candidate_index),
				       .exempt = part(s, s->plan.exempt),
				       .n_exempt = s->n_exempt,
				       .block_sums = part(s, s->plan.block_sums) };
}

int selector_enter(const struct device_selector *s, int *before)
{
	return enter_device(s, before);
}

int selector_leave(const struct device_selector *s, int before, int rc)
{
	return leave_device(s, before, rc);
}
