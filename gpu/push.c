/* SPDX-License-Identifier: BSD-3-Clause
 * The host's part of a push on the device: selection, split, pack (and quantize) for each part,
 * seal and report are enqueued together, and nobody need wait for them: the last one writes the
 * results to pinned memory, and then the number of the push, which the host polls. Nothing is
 * allocated after it is open. The residual keeps everything that was selected until report, or
 * cuda_push_settle(), takes off, in one launch, what messages hold: what fails before has lost
 * nothing. */
#include "gpu/push.h"
#include "gpu/capture.h"
#include "gpu/failure.h"
#include "gpu/report.h"
#include "base/bytes.h"
#include "gpu/selector.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	THREADS = 256,
	WARPS_OF_BLOCK = 8,
	BLOCKS_EACH = 2,
	ENTRY_WORDS = 2,
	SIGNS_BYTES = 64 /* alone in their line */
};

/* What comes back, in one piece. */
struct results {
	struct push_summary summary;
	struct push_part part[];
};

struct device_push {
	struct device_selector *s;
	size_t parts, results_bytes;
	struct results *results; /* on the device; behind them the places */
	struct push_place *places;
	struct results *arrived; /* pinned; behind them the places as they are sent */
	struct push_place *asked;
	struct push_signs *signs; /* pinned too, before them */
	uint32_t turn;            /* the number of the last push; not 0 once there was one */
	int device;               /* for those who ask what is waited for */
	int few_bits;             /* its values are */
	int known;                /* the host knows how long its payloads are */
	int marked;               /* some of what was selected is marked as not sent */
	uint32_t found;           /* of the push that cuda_pushed() waited for last */
	uint32_t power[CHECKSUM_POWERS];
};

static struct value_coding coding_of(const struct device_values *values)
{
	return (struct value_coding){ (enum value_type)values->type, values->bits, values->block,
				      0 };
}

static size_t granules(size_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

int cuda_push_open(struct device_selector *s, size_t parts, struct device_push **out)
{
	const size_t results = granules(sizeof(struct results) + parts * sizeof(struct push_part));
	const size_t bytes = results + parts * sizeof(struct push_place);
	struct device_push *p = calloc(1, sizeof(*p));
	enum cudaStreamCaptureMode mode;
	void *pinned = NULL;
	int before, rc;

	if (!p)
		return cuda_refuse("no memory for a push");
	*p = (struct device_push){ .s = s, .parts = parts, .results_bytes = results };
	checksum_powers(p->power);
	if (selector_enter(s, &before)) {
		free(p);
		return -1;
	}
	capture_allow(&mode);
	/* Kernels reach pinned memory at the host's address. */
	rc = cuda_check(cudaMalloc((void **)&p->results, bytes), "allocating a push") ||
	     cuda_check(cudaHostAlloc(&pinned, SIGNS_BYTES + bytes, cudaHostAllocDefault),
			"allocating pinned memory");
	capture_restore(mode);
	p->signs = pinned;
	if (selector_leave(s, before, rc)) {
		cuda_push_close(&p);
		return -1;
	}
	*p->signs = (struct push_signs){ 0, 0 };
	p->device = selector_view(s).device;
	p->arrived = (struct results *)(void *)((char *)pinned + SIGNS_BYTES);
	p->places = (struct push_place *)(void *)((char *)p->results + results);
	p->asked = (struct push_place *)(void *)((char *)p->arrived + results);
	*out = p;
	return 0;
}

void cuda_push_close(struct device_push **push)
{
	struct device_push *p = push ? *push : NULL;

	enum cudaStreamCaptureMode mode;

	if (!p)
		return;
	capture_allow(&mode);
	if (p->results && cudaFree(p->results) != cudaSuccess)
		cudaGetLastError();
	if (p->signs && cudaFreeHost(p->signs) != cudaSuccess)
		cudaGetLastError();
	capture_restore(mode);
	free(p);
	*push = NULL;
}

/* Behind the positions of part i. */
static int quantize_part(struct device_push *p, const struct selector_view *v, size_t i,
			 const struct device_part *part, const struct device_values *values,
			 uint32_t most, void *stream)
{
	struct push_part *there = &p->results->part[i];
	const struct quantize_args args = { .index = v->index,
					    .value = v->value,
					    .decoded = v->value,
					    .leave_rest = 1,
					    .entries = &there->range,
					    .packed = &there->packing,
					    .out = part->payload,
					    .count = most,
					    .coding = coding_of(values),
					    .most = &p->results->summary.largest,
					    .stream = { values->purpose, values->rank, values->step,
							values->seed },
					    .state = &there->quantizing };

	return cuda_check(
		quantize_enqueue(&args,
				 quantize_grid(most, v->multiprocessors, v->quantize_residents),
				 stream),
		"starting the kernel quantize");
}

static int pack_parts(struct device_push *p, const struct selector_view *v,
		      const struct device_part *parts, const struct device_values *values,
		      void *stream)
{
	for (size_t i = 0; i < p->parts; i++) {
		const struct pack_args args = { .index = v->index,
						.value = v->value,
						.decoded = v->value,
						.leave_rest = 1,
						.range = &p->results->part[i].range,
						.payload = parts[i].payload,
						.base = parts[i].begin,
						.count = parts[i].capacity,
						.span = parts[i].span,
						.values = coding_of(values),
						.state = &p->results->part[i].packing,
						.block_sums = v->block_sums,
						.widths = v->widths };
		const uint32_t most = parts[i].capacity < v->room ? parts[i].capacity : v->room;
		const unsigned grid = pack_grid(most, DELTA_BLOCK, WARPS_OF_BLOCK,
						v->multiprocessors, v->pack_residents);

		if (cuda_check(pack_enqueue(&args, grid, stream), "starting the kernel pack") ||
		    (p->few_bits && quantize_part(p, v, i, &parts[i], values, most, stream)))
			return -1;
	}
	return 0;
}

struct device_selector *push_selector(const struct device_push *p)
{
	return p->s;
}

size_t push_parts(const struct device_push *p)
{
	return p->parts;
}

void push_clear(struct device_push *p, int known)
{
	p->turn += p->turn == UINT32_MAX ? 2 : 1;
	p->found = 0;
	p->marked = 0;
	p->few_bits = 0;
	p->known = known;
}

int push_places(struct device_push *p, const struct device_part *parts, void *stream)
{
	/* The last push was waited for: its places are read. */
	for (size_t i = 0; i < p->parts; i++)
		p->asked[i] = (struct push_place){ parts[i].begin, parts[i].span, parts[i].payload,
						   parts[i].copy, p->known ? parts[i].bytes : 0 };
	if (cuda_check(cudaMemcpyAsync(p->places, p->asked, p->parts * sizeof(*p->places),
				       cudaMemcpyDefault, stream),
		       "copying the places of messages"))
		return -1;
	return cuda_check(cudaMemsetAsync(p->results, 0, p->results_bytes, stream),
			  "clearing a push");
}

int push_select(struct device_push *p, const struct device_select *call, int split, void *stream)
{
	const struct selector_view v = selector_view(p->s);
	const struct split_args args = { .selection = v.selection,
					 .index = v.index,
					 .place = p->places,
					 .parts = split ? (uint32_t)p->parts : 0,
					 .room = v.room,
					 .summary = &p->results->summary,
					 .part = p->results->part,
					 .selected = &p->signs->selected,
					 .turn = p->turn };

	if (cuda_check(cudaMemsetAsync(v.selection, 0, sizeof(*v.selection), stream),
		       "clearing a push"))
		return -1;
	if (cuda_select(p->s, call, stream))
		return -1;
	return cuda_check(split_enqueue(&args, stream), "starting the kernel split");
}

/* A few blocks on each multiprocessor fill a bus. */
int push_seal(struct device_push *p, uint64_t words, void *stream)
{
	const struct selector_view v = selector_view(p->s);
	struct seal_args args = { .place = p->places,
				  .part = p->results->part,
				  .parts = (uint32_t)p->parts };

	memcpy(args.power, p->power, sizeof(args.power));
	return cuda_check(seal_enqueue(&args,
				       list_grid(words, THREADS, v.multiprocessors, BLOCKS_EACH),
				       stream),
			  "starting the kernel seal");
}

int push_report(struct device_push *p, const struct device_select *call, void *stream)
{
	const struct selector_view v = selector_view(p->s);
	const int settles = call && call->settle;
	const struct report_args args = { .settle = { .residual = settles ? call->residual : NULL,
						      .velocity = settles ? call->masked : NULL,
						      .index = v.index,
						      .value = v.value,
						      .exempt = v.exempt,
						      .n_exempt = v.n_exempt,
						      .count = v.room },
					  .summary = &p->results->summary,
					  .part = p->results->part,
					  .parts = (uint32_t)p->parts,
					  .grad = call && call->judge ? call->grad : NULL,
					  .narrow = call && call->grad_type != VALUE_F32,
					  .selection = v.selection,
					  .from = (const uint32_t *)(const void *)p->results,
					  .to = (uint32_t *)(void *)p->arrived,
					  .words = (uint32_t)(p->results_bytes / sizeof(uint32_t)),
					  .done = &p->signs->done,
					  .turn = p->turn };
	const unsigned grid = list_grid(settles ? v.room : 1, THREADS, v.multiprocessors,
					WARPS_OF_BLOCK);

	return cuda_check(report_enqueue(&args, grid, stream), "starting the kernel report");
}

static int enqueue(struct device_push *p, const struct device_select *call,
		   const struct device_part *parts, const struct device_values *values,
		   void *stream)
{
	const struct selector_view v = selector_view(p->s);
	uint64_t most = 0;

	for (size_t i = 0; i < p->parts; i++)
		most = parts[i].capacity > most ? parts[i].capacity : most;
	if (push_places(p, parts, stream) || push_select(p, call, 1, stream))
		return -1;
	if (values &&
	    (pack_parts(p, &v, parts, values, stream) || push_seal(p, most * ENTRY_WORDS, stream)))
		return -1;
	return push_report(p, call, stream);
}

int cuda_push(struct device_push *p, const struct device_select *call,
	      const struct device_part *parts, const struct device_values *values, void *stream)
{
	const struct value_coding coding = values ? coding_of(values) :
						    (struct value_coding){ VALUE_F32, 0, 0, 0 };
	int before;

	if (value_few_bits(coding.type) && quantize_refuse(&coding))
		return -1;
	push_clear(p, 0);
	p->few_bits = value_few_bits(coding.type);
	if (cuda_ready(stream)) /* its result comes to the host */
		return -1;
	if (selector_enter(p->s, &before))
		return -1;
	return selector_leave(p->s, before, enqueue(p, call, parts, values, stream));
}

int cuda_push_done(const struct device_push *p)
{
	return __atomic_load_n(&p->signs->done, __ATOMIC_ACQUIRE) == p->turn;
}

static const char kernels[] = "a kernel of the push (topk, split, pack, quantize, sketch, gather, "
			      "seal or report), or one before it,";

/* Whether the stream is idle, or failed. */
static int ask(const struct device_push *p, void *stream)
{
	enum cudaStreamCaptureMode mode;
	cudaError_t error;

	capture_allow(&mode);
	error = cudaStreamQuery(stream);
	capture_restore(mode);
	if (error == cudaErrorNotReady) {
		cudaGetLastError(); /* it is none */
		return 0;
	}
	if (cuda_check(error, kernels))
		return -1;
	return cuda_push_done(p) ?
		       0 :
		       cuda_refuse("%s ended on GPU %d without its report", kernels, p->device);
}

int cuda_push_lost(struct device_push *p, void *stream)
{
	int before;

	if (cuda_push_done(p) || cuda_ready(stream)) /* asking would spoil the capture */
		return 0;
	if (selector_enter(p->s, &before))
		return -1;
	return selector_leave(p->s, before, ask(p, stream));
}

void cuda_push_stage(const struct device_push *p, char *text, size_t cap)
{
	const int selected = __atomic_load_n(&p->signs->selected, __ATOMIC_ACQUIRE) == p->turn;

	snprintf(text, cap, "GPU %d: %s", p->device,
		 p->known ? "its sketches or values (kernels sketch, gather, seal, report), or "
			    "what is before them in the stream" :
		 selected ? "its messages (kernels pack, quantize, seal, report)" :
			    "its selection (kernels fold, topk, gaussian, draw), or what is before "
			    "it in the stream");
}

int cuda_pushed(struct device_push *p, struct device_selected *out, struct device_sent *sent,
		void *stream)
{
	const struct selector_view v = selector_view(p->s);
	const struct push_summary *got = &p->arrived->summary;

	if (!cuda_push_done(p) && cuda_check(cudaStreamSynchronize(stream), kernels))
		return -1;
	if (!cuda_push_done(p))
		return cuda_refuse("%s ended on GPU %d without its report", kernels, p->device);
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
	p->found = (uint32_t)out->n;
	for (size_t i = 0; i < p->parts; i++) {
		const struct push_part *part = &p->arrived->part[i];

		if (p->known) {
			sent[i] = (struct device_sent){ .packed = 1,
							.payload_bytes = p->asked[i].bytes,
							.count = p->asked[i].bytes / sizeof(float),
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
						.scale = p->few_bits ? part->quantizing.scale :
								       part->packing.scale };
	}
	return 0;
}

static int fetch(struct device_push *p, uint32_t first, uint32_t count, uint32_t *index,
		 float *value, void *stream)
{
	const struct selector_view v = selector_view(p->s);

	if (cuda_check(cudaMemcpyAsync(index, v.index + first, count * sizeof(*index),
				       cudaMemcpyDefault, stream),
		       "copying what was selected") ||
	    cuda_check(cudaMemcpyAsync(value, v.value + first, count * sizeof(*value),
				       cudaMemcpyDefault, stream),
		       "copying what was selected"))
		return -1;
	return cuda_check(cudaStreamSynchronize(stream), "copying what was selected");
}

int cuda_push_fetch(struct device_push *p, uint32_t first, uint32_t count, uint32_t *index,
		    float *value, void *stream)
{
	int before;

	if (!count)
		return 0;
	if (selector_enter(p->s, &before)) /* it may be another call's thread */
		return -1;
	return selector_leave(p->s, before, fetch(p, first, count, index, value, stream));
}

static int leave(struct device_push *p, uint32_t first, uint32_t count, const float *rest,
		 const uint32_t *unsent, void *stream)
{
	const struct selector_view v = selector_view(p->s);

	if (unsent && !p->marked &&
	    cuda_check(cudaMemsetAsync(v.marks, 0, p->found * sizeof(*v.marks), stream),
		       "clearing marks"))
		return -1;
	p->marked |= unsent != NULL;
	if (unsent && cuda_check(cudaMemcpyAsync(v.marks + first, unsent, count * sizeof(*unsent),
						 cudaMemcpyDefault, stream),
				 "copying marks"))
		return -1;
	return cuda_check(cudaMemcpyAsync(v.value + first, rest, count * sizeof(*rest),
					  cudaMemcpyDefault, stream),
			  "copying what is left unsent");
}

int cuda_push_leave(struct device_push *p, uint32_t first, uint32_t count, const float *rest,
		    const uint32_t *unsent, void *stream)
{
	int before;

	if (!count)
		return 0;
	if (selector_enter(p->s, &before))
		return -1;
	return selector_leave(p->s, before, leave(p, first, count, rest, unsent, stream));
}

int cuda_push_settle(struct device_push *p, float *residual, float *velocity, void *stream)
{
	const struct selector_view v = selector_view(p->s);
	const struct settle_args args = { .residual = residual,
					  .velocity = velocity,
					  .index = v.index,
					  .value = v.value,
					  .unsent = p->marked ? v.marks : NULL,
					  .exempt = v.exempt,
					  .n_exempt = v.n_exempt,
					  .count = p->found };
	const unsigned grid = list_grid(p->found, THREADS, v.multiprocessors, WARPS_OF_BLOCK);
	int before;

	if (!p->found)
		return 0;
	if (selector_enter(p->s, &before))
		return -1;
	return selector_leave(
		p->s, before,
		cuda_check(settle_enqueue(&args, grid, stream), "starting the kernel settle"));
}
