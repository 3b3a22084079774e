/* SPDX-License-Identifier: BSD-3-Clause
 * The host's part of a push on the device. It enqueues selection, split, pack (and quantize), seal
 * and report together, with one launch each for all parts. The host need not wait for them: report
 * writes the results to pinned memory, followed by the number of the push, which the host polls.
 * Nothing is allocated after the compressor is opened. All selected values stay in the residual
 * until report or cuda_settle() subtracts what the messages hold.
 *
 * Where all coordinates are sent, split, dense (and quantize), seal and report are enqueued, and
 * dense updates the residual.
 *
 * With a recipe whose workers send sketches, the host knows the lengths of all payloads. The first
 * push makes each part's count sketch in its payload. When the shards have replied which
 * coordinates they want, the second push sends their values. */
#include "gpu/compressor.h"
#include "gpu/apply.h"
#include "gpu/context.h"
#include "gpu/encoder.h"
#include "gpu/failure.h"
#include "base/bytes.h"
#include "gpu/selector.h"
#include "gpu/sketch.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	THREADS = 256,
	WARPS_OF_BLOCK = 8,
	GATHER_BLOCKS_EACH = 8,
	CELL_BYTES = 4,
	LANDED_BYTES = 8, /* an index and a value */
	SIGNS_BYTES = 64  /* gives the words their own cache line */
};

/* The results, which are copied to the host in a single copy. */
struct results {
	struct push_summary summary;
	struct push_part part[];
};

struct device_compressor {
	struct device_selector *s;
	struct device_sketch *sketch; /* NULL if the compressor was opened without sketches */
	size_t parts, results_bytes;
	struct results *results; /* results on the device, followed by the places of the parts */
	struct push_place *places;
	struct results *arrived; /* pinned memory for the results, followed by the places that
				    the host requests */
	struct push_place *asked;
	struct push_signs *signs; /* pinned memory, before `arrived` */
	uint32_t turn;            /* number of the last push; 0 before the first */
	struct encoder *encoder;
	int device;   /* number of the GPU, for messages about an unfinished push */
	int few_bits; /* 1 if values are encoded in few bits */
	int known;    /* 1 if the host knows the lengths of the payloads */
	/* The number of coordinates that the last push selected, of those pushes for which
	 * cuda_pushed() has waited. */
	uint32_t found;
	/* Pinned memory for lists that kernels read; `landed` of its entries are in use. */
	uint32_t *landing_index;
	float *landing_value;
	size_t landing_room, landed;
};

static struct value_coding requested_coding(const struct device_values *values)
{
	return (struct value_coding){ (enum value_type)values->type, values->bits, values->block,
				      0 };
}

static size_t granules(size_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

static int allocate_results(struct device_compressor *c, size_t bytes)
{
	const size_t widths = encoder_widths(selector_view(c->s).room, c->parts);
	enum cudaStreamCaptureMode mode;
	void *pinned = NULL, *landing = NULL;
	int rc;

	capture_allow(&mode);
	/* Kernels access pinned memory at the host's address, so no other address is needed. */
	rc = cuda_check(cudaMalloc((void **)&c->results, bytes + widths), "allocating a push") ||
	     cuda_check(cudaHostAlloc(&pinned, SIGNS_BYTES + bytes, cudaHostAllocDefault),
			"allocating pinned memory") ||
	     (c->landing_room && cuda_check(cudaHostAlloc(&landing, c->landing_room * LANDED_BYTES,
							  cudaHostAllocDefault),
					    "allocating pinned memory")) ||
	     encoder_open((uint8_t *)c->results + bytes, &c->encoder);
	capture_restore(mode);
	c->signs = pinned;
	c->landing_index = landing;
	c->landing_value = landing ? (float *)landing + c->landing_room : NULL;
	return rc ? -1 : 0;
}

int cuda_open(const struct device_shape *shape, struct device_compressor **out)
{
	const size_t parts = shape->parts;
	const size_t results = granules(sizeof(struct results) + parts * sizeof(struct push_part));
	const struct sketcher_shape sketches = { .device = shape->device,
						 .n = (uint32_t)shape->n,
						 .columns = shape->sketch_columns,
						 .parts = parts,
						 .blocks = shape->blocks };
	struct device_compressor *c = calloc(1, sizeof(*c));
	int before;

	if (!c)
		return cuda_refuse("no memory for a compressor");
	c->landing_room = shape->landed;
	c->parts = parts;
	c->results_bytes = results;
	c->device = shape->device;
	if (cuda_selector_open(shape, &c->s) ||
	    (shape->sketch_columns && sketcher_open(&sketches, &c->sketch)) ||
	    selector_enter(c->s, &before) ||
	    selector_leave(c->s, before,
			   allocate_results(c, results + parts * sizeof(struct push_place)))) {
		cuda_close(&c);
		return -1;
	}
	*c->signs = (struct push_signs){ 0, 0 };
	c->arrived = (struct results *)(void *)((char *)c->signs + SIGNS_BYTES);
	c->places = (struct push_place *)(void *)((char *)c->results + results);
	c->asked = (struct push_place *)(void *)((char *)c->arrived + results);
	*out = c;
	return 0;
}

void cuda_close(struct device_compressor **compressor)
{
	struct device_compressor *c = compressor ? *compressor : NULL;
	enum cudaStreamCaptureMode mode;

	if (!c)
		return;
	capture_allow(&mode);
	if (c->results && cudaFree(c->results) != cudaSuccess)
		cudaGetLastError();
	if (c->signs && cudaFreeHost(c->signs) != cudaSuccess)
		cudaGetLastError();
	if (c->landing_index && cudaFreeHost(c->landing_index) != cudaSuccess)
		cudaGetLastError();
	capture_restore(mode);
	encoder_close(&c->encoder);
	cuda_sketch_close(&c->sketch);
	cuda_selector_close(&c->s);
	free(c);
	*compressor = NULL;
}

/* Returns the number of the push that is being enqueued. 0 stands for no push. */
static uint32_t next_turn(const struct device_compressor *c)
{
	return c->turn + 1 ? c->turn + 1 : 1;
}

/* Writes the places that the host requests to memory that the device reads. */
static void ask_places(struct device_compressor *c, const struct device_part *parts)
{
	uint32_t listed = 0;

	/* The host has waited for the last push, so the device has read that push's places. */
	for (size_t i = 0; i < c->parts; i++) {
		c->asked[i] = (struct push_place){ .begin = parts[i].begin,
						   .span = parts[i].span,
						   .capacity = parts[i].capacity,
						   .payload = parts[i].payload,
						   .copy = parts[i].copy,
						   .bytes = c->known ? parts[i].bytes : 0,
						   .listed = listed };
		listed += parts[i].bytes / CELL_BYTES;
	}
}

/* ---- lists in pinned memory -------------------------------------------------- */

/* Waits for the stream without invalidating a capture that another thread has begun on another
 * stream. */
static int wait_beside_captures(void *stream)
{
	enum cudaStreamCaptureMode mode;
	int rc;

	capture_allow(&mode);
	rc = cuda_check(cudaStreamSynchronize(stream), "an earlier kernel or copy");
	capture_restore(mode);
	return rc;
}

/* Returns 1 if all work in the stream is done, 0 if not, -1 if it failed. */
static int stream_idle(void *stream, const char *what)
{
	enum cudaStreamCaptureMode mode;
	cudaError_t error;

	capture_allow(&mode);
	error = cudaStreamQuery(stream);
	capture_restore(mode);
	if (error == cudaErrorNotReady) {
		cudaGetLastError(); /* clears the error, because a busy stream is not a failure */
		return 0;
	}
	return cuda_check(error, what) ? -1 : 1;
}

/* Reserves `count` entries. If the memory is used up, waits for the stream, because then all
 * earlier lists have been read. */
static int land(struct device_compressor *c, uint64_t count, uint32_t **index, float **value,
		void *stream)
{
	if (count > c->landing_room)
		return cuda_refuse(
			"the list has %llu entries, but the compressor was opened for at most %zu",
			(unsigned long long)count, c->landing_room);
	if (count > c->landing_room - c->landed) {
		if (wait_beside_captures(stream))
			return -1;
		c->landed = 0;
	}
	*index = c->landing_index + c->landed;
	*value = c->landing_value + c->landed;
	c->landed += (size_t)count;
	return 0;
}

int cuda_land(struct device_compressor *c, uint32_t count, uint32_t **index, float **value,
	      void *stream)
{
	int before;

	if (selector_enter(c->s, &before))
		return -1;
	return selector_leave(c->s, before, land(c, count, index, value, stream));
}

int cuda_lands(struct device_compressor *c, uint32_t count, void *stream)
{
	int before;

	if (count <= c->landing_room - c->landed)
		return 1;
	if (selector_enter(c->s, &before))
		return -1;
	return selector_leave(c->s, before, stream_idle(stream, "an earlier kernel or copy"));
}

/* ---- the parts of a push ----------------------------------------------------- */

/* Copies the request and zeroed results to the device. Not needed if coordinates are selected,
 * because the kernel split then does this. */
static int send_places(struct device_compressor *c, void *stream)
{
	if (cuda_check(cudaMemcpyAsync(c->places, c->asked, c->parts * sizeof(*c->places),
				       cudaMemcpyDefault, stream),
		       "copying the places of messages"))
		return -1;
	return cuda_check(cudaMemsetAsync(c->results, 0, c->results_bytes, stream),
			  "clearing a push");
}

enum split { SPLIT_NOTHING, SPLIT_SELECTION, SPLIT_VECTOR };

/* Enqueues the copy of the selection's result. Also enqueues the computation of each part's range
 * in the selection or in the vector. */
static int enqueue_split(struct device_compressor *c, enum split split, void *stream)
{
	const struct selector_view v = selector_view(c->s);
	const struct split_args args = { .selection = v.selection,
					 .index = v.index,
					 .asked = c->asked,
					 .place = c->places,
					 .parts = (uint32_t)c->parts,
					 .splits = split == SPLIT_SELECTION,
					 .whole = split == SPLIT_VECTOR,
					 .room = v.room,
					 .summary = &c->results->summary,
					 .part = c->results->part,
					 .selected = &c->signs->selected,
					 .number = next_turn(c) };

	return cuda_check(split_enqueue(&args, stream), "starting the kernel split");
}

/* Enqueues the selection, then calls enqueue_split(). */
static int enqueue_selection(struct device_compressor *c, const struct device_select *call,
			     enum split split, void *stream)
{
	const struct device_selection selection = { .call = *call };

	if (cuda_select(c->s, &selection, stream))
		return -1;
	return enqueue_split(c, split, stream);
}

/* Enqueues the end of a push and the copy of its results. */
static int report(struct device_compressor *c, const struct device_push *push, void *stream)
{
	const struct selector_view v = selector_view(c->s);
	const struct device_select *call = &push->select;
	const int adds = push->payload != DEVICE_VALUES;
	const int settles = push->payload == DEVICE_PAIRS && push->settle;
	const struct report_args args = { .settled = push->payload == DEVICE_DENSE,
					  .settle = { .residual = settles ? call->residual : NULL,
						      .velocity = settles ? push->masked : NULL,
						      .index = v.index,
						      .value = v.value,
						      .exempt = v.exempt,
						      .n_exempt = v.n_exempt,
						      .count = v.room },
					  .summary = &c->results->summary,
					  .part = c->results->part,
					  .parts = (uint32_t)c->parts,
					  .grad = adds && call->judge ? call->grad : NULL,
					  .grad_type = (enum value_type)call->grad_type,
					  .grad_scale = call->grad_scale,
					  .selection = v.selection,
					  .from = (const uint32_t *)(const void *)c->results,
					  .to = (uint32_t *)(void *)c->arrived,
					  .words = (uint32_t)(c->results_bytes / sizeof(uint32_t)),
					  .done = &c->signs->done,
					  .number = next_turn(c) };
	const unsigned grid = list_grid(settles ? v.room : 1, THREADS, v.multiprocessors,
					WARPS_OF_BLOCK);

	return cuda_check(report_enqueue(&args, fewer_blocks(grid, v.blocks), stream),
			  "starting the kernel report");
}

/* Returns the encoding of this push, including the places of its payloads. */
static struct encoding encoding_of(const struct device_compressor *c,
				   const struct device_push *push, void *stream)
{
	return (struct encoding){ .of = selector_view(c->s),
				  .push = push,
				  .place = c->places,
				  .part = c->results->part,
				  .parts = (uint32_t)c->parts,
				  .summary = &c->results->summary,
				  .stream = stream };
}

static int enqueue_dense(struct device_compressor *c, const struct device_push *push, void *stream)
{
	const struct encoding e = encoding_of(c, push, stream);
	int folded;

	if (selector_fold(c->s, &push->select, &folded, stream) ||
	    enqueue_split(c, SPLIT_VECTOR, stream) || encoder_dense(c->encoder, &e, folded))
		return -1;
	return encoder_seal(c->encoder, &e, e.of.n);
}

static int enqueue_selected(struct device_compressor *c, const struct device_push *push,
			    void *stream)
{
	const struct encoding e = encoding_of(c, push, stream);

	if (enqueue_selection(c, &push->select, SPLIT_SELECTION, stream))
		return -1;
	return push->payload == DEVICE_PAIRS ? encoder_pack(c->encoder, &e) : 0;
}

/* Returns the number of cells in all payloads, whose lengths the host knows. */
static uint64_t all_cells(const struct device_compressor *c, const struct device_part *parts)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < c->parts; i++)
		bytes += parts[i].bytes;
	return bytes / CELL_BYTES;
}

static int enqueue_sketches(struct device_compressor *c, const struct device_push *push,
			    void *stream)
{
	const struct encoding e = encoding_of(c, push, stream);
	const uint32_t nothing = 0;
	struct device_select adding = push->select;

	adding.list = &nothing;
	adding.listed = 0;
	if (enqueue_selection(c, &adding, SPLIT_NOTHING, stream) ||
	    sketcher_push(c->sketch, adding.residual, push->parts, c->places, push->rows, stream))
		return -1;
	return encoder_seal(c->encoder, &e, all_cells(c, push->parts));
}

/* Writes the requested coordinates of all parts to pinned memory, where the kernel reads them. */
static int enqueue_values(struct device_compressor *c, const struct device_push *push, void *stream)
{
	const struct encoding e = encoding_of(c, push, stream);
	const struct selector_view v = e.of;
	const uint64_t count = all_cells(c, push->parts);
	const unsigned wanted = list_grid(count, THREADS, v.multiprocessors, GATHER_BLOCKS_EACH);
	const unsigned grid = push_grid((uint32_t)c->parts, wanted, v.multiprocessors,
					GATHER_BLOCKS_EACH);
	uint32_t *index = NULL;
	float *unused;

	if (land(c, count, &index, &unused, stream))
		return -1;
	for (size_t i = 0; i < c->parts && count; i++)
		memcpy(index + c->asked[i].listed, push->parts[i].index, push->parts[i].bytes);
	const struct push_gather_args args = { .vector = push->vector,
					       .index = index,
					       .place = c->places,
					       .parts = (uint32_t)c->parts };

	if (send_places(c, stream) ||
	    cuda_check(gather_push_enqueue(&args, fewer_blocks(grid, v.blocks), stream),
		       "starting the kernel gather"))
		return -1;
	return encoder_seal(c->encoder, &e, count);
}

static int enqueue_push(struct device_compressor *c, const struct device_push *push, void *stream)
{
	int rc;

	ask_places(c, push->parts);
	if (push->payload == DEVICE_SKETCHES)
		rc = enqueue_sketches(c, push, stream);
	else if (push->payload == DEVICE_VALUES)
		rc = enqueue_values(c, push, stream);
	else if (push->payload == DEVICE_DENSE)
		rc = enqueue_dense(c, push, stream);
	else
		rc = enqueue_selected(c, push, stream);
	return rc ? -1 : report(c, push, stream);
}

int cuda_push(struct device_compressor *c, const struct device_push *push, void *stream)
{
	const struct value_coding coding = requested_coding(&push->values);
	const int encodes = push->payload == DEVICE_PAIRS || push->payload == DEVICE_DENSE;
	int before, rc;

	c->found = 0;
	c->known = push->payload == DEVICE_SKETCHES || push->payload == DEVICE_VALUES;
	c->few_bits = encodes && value_few_bits(coding.type);
	if (c->few_bits && quantize_refuse(&coding))
		return -1;
	if (push->payload == DEVICE_SKETCHES && (!c->sketch || !push->rows))
		return cuda_refuse(
			"the sketches have no rows, or the compressor was opened without sketches");
	if (selector_enter(c->s, &before))
		return -1;
	rc = cuda_ready(stream) ? -1 : enqueue_push(c, push, stream);
	if (!rc)
		c->turn = next_turn(c);
	return selector_leave(c->s, before, rc);
}

/* ---- the outcome ------------------------------------------------------------ */

static int is_done(const struct device_compressor *c)
{
	return c->turn && __atomic_load_n(&c->signs->done, __ATOMIC_ACQUIRE) == c->turn;
}

static const char kernels[] = "a kernel of the push (topk, split, pack, dense, quantize, sketch, "
			      "gather, seal or report), or an earlier one,";

static int refuse_unreported(const struct device_compressor *c)
{
	return cuda_refuse("%s ended on GPU %d without reporting", kernels, c->device);
}

/* Returns 1 if the stream is idle, 0 if it is busy, -1 if it failed. */
static int query_stream(const struct device_compressor *c, void *stream)
{
	int idle;

	if (cuda_ready(stream)) /* a query would invalidate the capture */
		return 0;
	idle = stream_idle(stream, kernels);
	if (idle <= 0)
		return idle;
	return is_done(c) ? 0 : refuse_unreported(c);
}

int cuda_poll(struct device_compressor *c, int asks, void *stream)
{
	int before;

	if (is_done(c))
		return 1;
	if (!asks)
		return 0;
	/* The calling thread may not be the one that pushed. Its current device may then be another
	 * one, and NULL would mean the default stream of that device. */
	if (selector_enter(c->s, &before))
		return -1;
	return selector_leave(c->s, before, query_stream(c, stream));
}

void cuda_stage(const struct device_compressor *c, char *text, size_t cap)
{
	const int selected = __atomic_load_n(&c->signs->selected, __ATOMIC_ACQUIRE) == c->turn;

	snprintf(text, cap, "GPU %d: %s", c->device,
		 c->known ? "its sketches or values (kernels sketch, gather, seal, report), or "
			    "earlier work in the stream" :
		 selected ? "its messages (kernels pack, dense, quantize, seal, report)" :
			    "its selection (kernels fold, topk, gaussian, draw, block_topk), or "
			    "earlier work in the stream");
}

static int wait_for_stream(const struct device_compressor *c, void *stream)
{
	int before;

	if (selector_enter(c->s, &before))
		return -1;
	return selector_leave(c->s, before, cuda_check(cudaStreamSynchronize(stream), kernels));
}

int cuda_pushed(struct device_compressor *c, struct device_selected *out, struct device_sent *sent,
		void *stream)
{
	const struct selector_view v = selector_view(c->s);
	const struct push_summary *got = &c->arrived->summary;

	if (!is_done(c) && wait_for_stream(c, stream))
		return -1;
	if (!is_done(c))
		return refuse_unreported(c);
	*out = (struct device_selected){ .n = got->found,
					 .nan = got->nan != 0,
					 .passes = got->passes,
					 .largest = bits_float(got->largest),
					 .nonfinite = got->nonfinite,
					 .first_nonfinite = (uint32_t)~got->inverted_first,
					 .bad = got->bad,
					 .settled = got->settled != 0 };
	out->overfull = out->n > v.room;
	out->n = out->overfull ? 0 : out->n;
	c->found = (uint32_t)out->n;
	for (size_t i = 0; i < c->parts; i++) {
		const struct push_part *part = &c->arrived->part[i];

		if (c->known) {
			sent[i] = (struct device_sent){ .packed = 1,
							.payload_bytes = c->asked[i].bytes,
							.count = c->asked[i].bytes / sizeof(float),
							.crc = part->crc,
							.scale = 1,
							.nonfinite = part->nonfinite != 0 };
			continue;
		}
		sent[i] = (struct device_sent){ .first = part->range.first,
						.count = part->range.count,
						.packed = part->packing.verdict == PACK_DONE,
						.coding = (int)part->packing.coding,
						.payload_bytes = part->packing.payload_bytes,
						.crc = part->crc,
						.scale = c->few_bits ? part->quantizing.scale :
								       part->packing.scale };
	}
	return 0;
}

static int copy_selection(struct device_compressor *c, uint32_t first, uint32_t count,
			  uint32_t *index, float *value, void *stream)
{
	const struct selector_view v = selector_view(c->s);

	if (cuda_check(cudaMemcpyAsync(index, v.index + first, count * sizeof(*index),
				       cudaMemcpyDefault, stream),
		       "copying what was selected") ||
	    cuda_check(cudaMemcpyAsync(value, v.value + first, count * sizeof(*value),
				       cudaMemcpyDefault, stream),
		       "copying what was selected"))
		return -1;
	return cuda_check(cudaStreamSynchronize(stream), "copying what was selected");
}

int cuda_fetch(struct device_compressor *c, uint32_t first, uint32_t count, uint32_t *index,
	       float *value, void *stream)
{
	int before;

	if (!count)
		return 0;
	if (selector_enter(c->s, &before)) /* this thread may not be the one that pushed */
		return -1;
	return selector_leave(c->s, before, copy_selection(c, first, count, index, value, stream));
}

/* Copies to the device the values that the host did not send for a part. */
static int send_rest(const struct selector_view *v, const struct device_sent *sent,
		     const float *rest, const uint32_t *unsent, void *stream)
{
	const uint32_t first = sent->first, count = sent->count;

	if (!count)
		return 0;
	if (unsent &&
	    cuda_check(cudaMemcpyAsync(v->marks + first, unsent + first, count * sizeof(*unsent),
				       cudaMemcpyDefault, stream),
		       "copying marks"))
		return -1;
	return cuda_check(cudaMemcpyAsync(v->value + first, rest + first, count * sizeof(*rest),
					  cudaMemcpyDefault, stream),
			  "copying what is left unsent");
}

static int enqueue_settle(struct device_compressor *c, float *residual, float *velocity,
			  const struct device_sent *sent, const float *rest, const uint32_t *unsent,
			  void *stream)
{
	const struct selector_view v = selector_view(c->s);
	const struct settle_args args = { .residual = residual,
					  .velocity = velocity,
					  .index = v.index,
					  .value = v.value,
					  .unsent = unsent ? v.marks : NULL,
					  .exempt = v.exempt,
					  .n_exempt = v.n_exempt,
					  .count = c->found };
	const unsigned grid = list_grid(c->found, THREADS, v.multiprocessors, WARPS_OF_BLOCK);

	if (unsent && cuda_check(cudaMemsetAsync(v.marks, 0, c->found * sizeof(*v.marks), stream),
				 "clearing marks"))
		return -1;
	for (size_t i = 0; i < c->parts; i++)
		if (!sent[i].packed && send_rest(&v, &sent[i], rest, unsent, stream))
			return -1;
	return cuda_check(settle_enqueue(&args, fewer_blocks(grid, v.blocks), stream),
			  "starting the kernel settle");
}

int cuda_settle(struct device_compressor *c, float *residual, float *velocity,
		const struct device_sent *sent, const float *rest, const uint32_t *unsent,
		void *stream)
{
	int before;

	if (!c->found)
		return 0;
	if (selector_enter(c->s, &before))
		return -1;
	return selector_leave(c->s, before,
			      enqueue_settle(c, residual, velocity, sent, rest, unsent, stream));
}

int cuda_apply(struct device_compressor *c, const struct device_apply *call, void *stream)
{
	return selector_apply(c->s, call, stream);
}

int cuda_change(struct device_compressor *c, const struct device_change *call, void *stream)
{
	return selector_change(c->s, call, stream);
}
