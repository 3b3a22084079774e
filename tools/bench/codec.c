/* SPDX-License-Identifier: BSD-3-Clause
 * See codec.h. The positions are those that sluice_select() selects from n random values. Each
 * repetition measures every quantity once, one after another, next to a copy of the same bytes;
 * results are medians. The codings are not public, so sluice-bench links the library with its
 * private symbols. */
#include "tools/bench/codec.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "runtime/compress/dct.h"
#include "runtime/compress/few_bits.h"
#include "runtime/compress/index_coding.h"
#include "runtime/compress/sketch.h"
#include "sluice_select.h"
#include "tools/bench/densities.h"
#include "tools/bench/samples.h"
#include "tools/bench/select_data.h"
#include "tools/json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SKETCH_*: the rows of a sketch whose recipe gives none, and its columns as a multiple of k. */
enum { MOST = 2000, SKETCH_ROWS = 5 };
static const double sketch_width = 1.6;

/* The quantities that are written and read back, in the order of the rows. */
enum subject {
	RAW,
	DELTA,
	RICE,
	BITMAP,
	F32,
	F16,
	BF16,
	UNIFORM,       /* values in four bits; each is rounded by the random number of its
			  position */
	UNIFORM_DENSE, /* the same for a message of all positions */
	UNIFORM_2,
	UNIFORM_8,
	SIGN,
	GRID,
	ROUND,
	TWOMEANS,
	E3M0,
	CHECKSUM,
	MESSAGE,
	SUBJECTS
};

static const char *const names[SUBJECTS] = { "raw",           "delta",     "rice",      "bitmap",
					     "f32",           "f16",       "bf16",      "uniform",
					     "uniform-dense", "uniform-2", "uniform-8", "sign",
					     "grid",          "round",     "twomeans",  "e3m0",
					     "crc32c",        "message" };
static const enum index_coding codings[] = { CODING_RAW, CODING_DELTA, CODING_RICE, CODING_BITMAP };

/* A sketch of all n coordinates as a worker and a shard use it, compared with one plain read of the
 * coordinates. */
struct sketching {
	struct sketch_shape shape;
	float *cells, *estimate; /* estimate: n */
	struct samples add, look, read;
};

enum { BLOCK = DCT_MOST * DCT_MOST };

/* The cosine transforms of all whole blocks of the n coordinates, one after another, as a worker
 * (forward) and a shard (back) compute them with transform=dct(64). */
struct transforming {
	struct dct_matrix matrix;
	float block[BLOCK];
	struct samples forward, back;
};

struct bench {
	const struct options *o;
	float *x; /* n */
	sluice_selector *selector;
	uint32_t *index, *got; /* k */
	float *value, *got_value;
	uint8_t *bytes;
	size_t capacity;
	uint32_t k, span, sink;
	uint64_t length[SUBJECTS]; /* length of the written bytes */
	struct samples encode[SUBJECTS], decode[SUBJECTS], copy, select;
	struct sketching sketch;
	struct transforming dct;
	const char *trouble;
};

static double seconds_since(uint64_t began)
{
	return (double)(now_ns() - began) * 1e-9;
}

/* ---- one measurement ------------------------------------------------------- */

static void run_index(struct bench *b, enum subject s)
{
	enum index_coding coding = codings[s];
	const char *why = NULL;
	uint64_t began = now_ns();

	b->length[s] = index_bytes(NULL, coding, b->index, b->k, b->span);
	index_encode(NULL, coding, b->index, b->k, b->span, b->bytes, b->length[s]);
	samples_add(&b->encode[s], seconds_since(began));
	began = now_ns();
	if (index_decode(NULL, coding, b->bytes, b->length[s], b->k, b->span, b->got, &why))
		b->trouble = why;
	samples_add(&b->decode[s], seconds_since(began));
	if (memcmp(b->got, b->index, b->k * sizeof(*b->index)) != 0)
		b->trouble = "positions differ after writing and reading";
}

static void run_values(struct bench *b, enum subject s)
{
	enum value_type type = (enum value_type)(s - F32);
	uint64_t began = now_ns();
	float scale = value_scale(type, b->value, b->k);

	values_encode(type, scale, b->value, b->k, b->bytes, NULL);
	samples_add(&b->encode[s], seconds_since(began));
	began = now_ns();
	if (values_decode(type, scale, b->bytes, b->k, b->got_value))
		b->trouble = "a value is not finite";
	samples_add(&b->decode[s], seconds_since(began));
	b->length[s] = b->k * value_bytes(type);
}

static struct value_coding few_bits_of(enum subject s)
{
	switch (s) {
	case UNIFORM_2: return (struct value_coding){ VALUE_UNIFORM, 2, UNIFORM_BLOCK, 0 };
	case UNIFORM_8: return (struct value_coding){ VALUE_UNIFORM, 8, UNIFORM_BLOCK, 0 };
	case SIGN: return (struct value_coding){ VALUE_UNIFORM, 1, UNIFORM_BLOCK, 0 };
	case GRID: return (struct value_coding){ VALUE_GRID, 4, 0, 0 };
	case ROUND: return (struct value_coding){ VALUE_ROUND, 0, 0, 1.0f };
	case TWOMEANS: return (struct value_coding){ VALUE_TWOMEANS, 2, UNIFORM_BLOCK, 0 };
	case E3M0: return (struct value_coding){ VALUE_E3M0, 4, UNIFORM_BLOCK, 0 };
	default: return (struct value_coding){ VALUE_UNIFORM, 4, UNIFORM_BLOCK, 0 };
	}
}

static void run_few_bits(struct bench *b, enum subject s)
{
	struct value_coding values = few_bits_of(s);
	const struct rounding rounding = { .stream = { RANDOM_ROUND, 0, 1, 0 },
					   .index = s == UNIFORM_DENSE ? NULL : b->index };
	const char *why = NULL;
	uint64_t began = now_ns();
	float scale = few_bits_fit(&values, b->value, b->k, 0);

	few_bits_encode(NULL, &values, scale, b->value, b->k, &rounding, b->bytes, b->got_value);
	samples_add(&b->encode[s], seconds_since(began));
	began = now_ns();
	if (few_bits_decode(NULL, &values, scale, b->bytes, b->k, b->got_value, &why))
		b->trouble = why;
	samples_add(&b->decode[s], seconds_since(began));
	b->length[s] = few_bits_bytes(&values, b->k);
}

static void run_checksum(struct bench *b)
{
	uint64_t began = now_ns();

	b->sink ^= crc32c(0, b->value, b->k * sizeof(*b->value));
	samples_add(&b->encode[CHECKSUM], seconds_since(began));
	samples_add(&b->decode[CHECKSUM], NAN);
	b->length[CHECKSUM] = sizeof(uint32_t);
}

static void run_message(struct bench *b)
{
	struct message m = {
		.kind = MESSAGE_PUSH, .span = b->span, .count = b->k, .parts = 1, .lr = 1
	};
	const char *why = NULL;
	uint64_t began = now_ns();
	/* As in a step, the decoded values replace the originals, which they equal for f32. */
	size_t n = message_encode(NULL, &m, b->index, b->value, b->value, b->bytes, b->capacity);

	samples_add(&b->encode[MESSAGE], seconds_since(began));
	began = now_ns();
	if (message_copy(NULL, b->bytes, n, b->bytes, n, &m, &why) ||
	    message_decode(NULL, &m, b->bytes, b->got, b->got_value, &why))
		b->trouble = why;
	samples_add(&b->decode[MESSAGE], seconds_since(began));
	b->length[MESSAGE] = n;
}

static void run_sketch(struct bench *b)
{
	struct sketching *t = &b->sketch;
	uint64_t began = now_ns();

	b->sink ^= pass_read(b->x, b->o->n, 1);
	samples_add(&t->read, seconds_since(began));
	memset(t->cells, 0, (size_t)t->shape.rows * t->shape.columns * sizeof(*t->cells));
	began = now_ns();
	sketch_add(&t->shape, b->x, b->span, t->cells);
	samples_add(&t->add, seconds_since(began));
	began = now_ns();
	sketch_estimate(&t->shape, t->cells, b->span, t->estimate);
	samples_add(&t->look, seconds_since(began));
}

static void run_dct(struct bench *b)
{
	struct transforming *t = &b->dct;
	const struct dct_matrix *m = &t->matrix;
	uint64_t ns[2] = { 0 };

	for (uint64_t at = 0; at + BLOCK <= b->o->n; at += BLOCK) {
		memcpy(t->block, b->x + at, sizeof(t->block));
		const uint64_t began = now_ns();
		dct_forward(m, DCT_MOST, m, DCT_MOST, t->block);
		const uint64_t middle = now_ns();
		dct_inverse(m, DCT_MOST, m, DCT_MOST, t->block);
		ns[1] += now_ns() - middle;
		ns[0] += middle - began;
	}
	samples_add(&t->forward, (double)ns[0] * 1e-9);
	samples_add(&t->back, (double)ns[1] * 1e-9);
}

static int repeat(struct bench *b)
{
	uint64_t began = now_ns();
	size_t selected;
	int rc = sluice_select(b->selector, b->x, NULL, b->k, b->index, b->value, &selected);

	if (rc)
		return rc;
	b->k = (uint32_t)selected;
	samples_add(&b->select, seconds_since(began));
	for (enum subject s = RAW; s <= BITMAP; s++)
		run_index(b, s);
	began = now_ns();
	memcpy(b->got_value, b->value, b->k * sizeof(*b->value));
	samples_add(&b->copy, seconds_since(began));
	for (enum subject s = F32; s <= BF16; s++)
		run_values(b, s);
	for (enum subject s = UNIFORM; s <= E3M0; s++)
		run_few_bits(b, s);
	run_checksum(b);
	run_message(b);
	run_sketch(b);
	run_dct(b);
	return b->trouble ? -1 : 0;
}

/* ---- output ---------------------------------------------------------------- */

static void print_value(const char *name, double value)
{
	printf(",\"%s\":", name);
	json_number(stdout, value);
}

/* Converts the seconds for `count` 4-byte items into bytes per second. */
static double rate(const struct bench *b, double seconds)
{
	return (double)b->k * 4 / seconds;
}

/* Prints nanoseconds per coordinate. */
static void print_sketch(struct bench *b)
{
	const double each = 1e9 / (double)b->o->n;
	const double add = samples_summary(&b->sketch.add).p50 * each;
	const double look = samples_summary(&b->sketch.look).p50 * each;
	const double read = samples_summary(&b->sketch.read).p50 * each;

	if (!b->o->json) {
		printf("a sketch of all %u in %u rows of %u cells: %.2f ns a coordinate to add it "
		       "(%.1f times a read), %.2f ns to estimate it (%.1f times); a read %.2f ns\n",
		       b->span, b->sketch.shape.rows, b->sketch.shape.columns, add, add / read,
		       look, look / read, read);
		return;
	}
	printf(",\n{\"what\":\"sketch\",\"count\":%u,\"columns\":%u", b->k,
	       b->sketch.shape.columns);
	print_value("add_ns", add);
	print_value("estimate_ns", look);
	print_value("read_ns", read);
	putchar('}');
}

/* Prints nanoseconds per coordinate, if there is a whole block. */
static void print_dct(struct bench *b)
{
	const double each = 1e9 / (double)(b->o->n / BLOCK * BLOCK);
	const double forward = samples_summary(&b->dct.forward).p50 * each;
	const double back = samples_summary(&b->dct.back).p50 * each;
	const double read = samples_summary(&b->sketch.read).p50 * 1e9 / (double)b->o->n;

	if (b->o->n < BLOCK)
		return;
	if (!b->o->json) {
		printf("cosine transforms of blocks of %d x %d: %.2f ns a coordinate (%.1f times a "
		       "read), back %.2f ns (%.1f times)\n",
		       DCT_MOST, DCT_MOST, forward, forward / read, back, back / read);
		return;
	}
	printf(",\n{\"what\":\"dct\"");
	print_value("forward_ns", forward);
	print_value("back_ns", back);
	print_value("read_ns", read);
	putchar('}');
}

/* Prints a rate and its cost in copies. Prints nothing if it was not measured (NaN). */
static void print_pair(const struct bench *b, double seconds, double copy)
{
	if (isnan(seconds))
		printf(" %14s %7s", "-", "-");
	else
		printf(" %14.2f %7.2f", rate(b, seconds) * 1e-9, seconds / copy);
}

static void print_rows(struct bench *b, int first)
{
	double p = (double)b->k / b->span;
	double entropy = p < 1 ? -(p * log2(p) + (1 - p) * log2(1 - p)) / p : 0;
	double copy = samples_summary(&b->copy).p50, select = samples_summary(&b->select).p50;

	if (!b->o->json)
		printf("%s%u of %u: random positions cost %.2f bits at least; copy %.2f GB/s, "
		       "selection %.3f ms, %zu repetitions\n%-13s %12s %14s %7s %14s %7s\n",
		       first ? "" : "\n", b->k, b->span, entropy, rate(b, copy) * 1e-9,
		       select * 1e3, samples_summary(&b->copy).n, "", "bits an item", "write GB/s",
		       "x copy", "read GB/s", "x copy");
	for (enum subject s = 0; s < SUBJECTS; s++) {
		double encode = samples_summary(&b->encode[s]).p50,
		       decode = samples_summary(&b->decode[s]).p50;
		double bits = 8.0 * (double)b->length[s] / b->k;

		if (!b->o->json) {
			printf("%-13s %12.2f", names[s], bits);
			print_pair(b, encode, copy);
			print_pair(b, decode, copy);
			putchar('\n');
			continue;
		}
		printf("%s\n{\"what\":\"%s\",\"count\":%u", first && s == 0 ? "" : ",", names[s],
		       b->k);
		print_value("entropy_bits", entropy);
		print_value("bits", bits);
		print_value("encode_ms", encode * 1e3);
		print_value("decode_ms", decode * 1e3);
		print_value("copy_ms", copy * 1e3);
		print_value("select_ms", select * 1e3);
		print_value("encode_bytes_per_second", rate(b, encode));
		print_value("decode_bytes_per_second", rate(b, decode));
		putchar('}');
	}
	if (!b->o->json)
		printf("a message, written and read: %.3f ms, %.1f %% of the selection\n",
		       (samples_summary(&b->encode[MESSAGE]).p50 +
			samples_summary(&b->decode[MESSAGE]).p50) *
			       1e3,
		       (samples_summary(&b->encode[MESSAGE]).p50 +
			samples_summary(&b->decode[MESSAGE]).p50) /
			       select * 100);
	print_sketch(b);
	print_dct(b);
	fflush(stdout);
}

static void print_head(const struct options *o)
{
	if (o->json) {
		printf("{\"tool\":\"sluice-bench\",\"version\":");
		json_text(stdout, sluice_version(NULL));
		printf(",\"test\":\"codec\",\"n\":%llu,\"distribution\":\"%s\",\"seed\":%llu,"
		       "\"rows\":[",
		       (unsigned long long)o->n, distribution_name(o->distribution),
		       (unsigned long long)o->seed);
		return;
	}
	printf("codec: n %llu, %s, one thread, medians; GB/s of 4-byte positions or values; Sluice "
	       "%s\n",
	       (unsigned long long)o->n, distribution_name(o->distribution), sluice_version(NULL));
}

/* ---- one density after another --------------------------------------------- */

static int open_samples(struct bench *b, size_t rounds)
{
	int rc = samples_open(&b->copy, rounds) | samples_open(&b->select, rounds) |
		 samples_open(&b->sketch.add, rounds) | samples_open(&b->sketch.look, rounds) |
		 samples_open(&b->sketch.read, rounds) | samples_open(&b->dct.forward, rounds) |
		 samples_open(&b->dct.back, rounds);

	for (int s = 0; s < SUBJECTS; s++)
		rc |= samples_open(&b->encode[s], rounds) | samples_open(&b->decode[s], rounds);
	return rc;
}

static void close_samples(struct bench *b)
{
	samples_close(&b->copy);
	samples_close(&b->select);
	samples_close(&b->sketch.add);
	samples_close(&b->sketch.look);
	samples_close(&b->sketch.read);
	samples_close(&b->dct.forward);
	samples_close(&b->dct.back);
	for (int s = 0; s < SUBJECTS; s++) {
		samples_close(&b->encode[s]);
		samples_close(&b->decode[s]);
	}
}

static int measure(struct bench *b)
{
	const struct options *o = b->o;
	uint64_t began = now_ns(), rounds;
	int rc = open_samples(b, 1);

	for (uint64_t i = 0; i < o->warmup && !rc; i++)
		rc = repeat(b);
	rounds = densities_rounds(o, seconds_since(began), MOST);
	close_samples(b);
	if (!rc)
		rc = open_samples(b, rounds);
	for (uint64_t i = 0; i < rounds && !rc; i++)
		rc = repeat(b);
	return rc;
}

static int one_count(void *bench, size_t k, int first)
{
	struct bench *b = bench;
	const sluice_selector_attr attr = {
		.size = sizeof attr, .n = b->o->n, .k = k, .threads = 1
	};
	int rc = sluice_selector_open(&attr, &b->selector);

	b->k = (uint32_t)k;
	b->sketch.shape.columns = (uint32_t)ceil(sketch_width * (double)k);
	if (!rc)
		rc = measure(b);
	if (!rc)
		print_rows(b, first);
	else if (b->trouble)
		fprintf(stderr, "sluice-bench: codec: %s\n", b->trouble);
	close_samples(b);
	sluice_selector_close(&b->selector);
	return rc;
}

int bench_codec(const struct options *o)
{
	struct bench b = { .o = o,
			   .span = (uint32_t)o->n,
			   .sketch.shape = { .rows = SKETCH_ROWS, .seed = o->seed } };
	size_t most = densities_most(o);
	int rc = -1;

	/* Rice codes of few positions, and all other codings, take at most twice the size of the
	 * plain numbers and the bitmap. */
	b.capacity = message_bound(b.span, (uint32_t)most,
				   (struct value_coding){ VALUE_F32, 0, 0, 0 }) +
		     8 * most + b.span / 4 + 64;
	b.x = malloc(o->n * sizeof(*b.x));
	b.index = calloc(most, sizeof(*b.index));
	b.got = calloc(most, sizeof(*b.got));
	b.value = calloc(most, sizeof(*b.value));
	b.got_value = calloc(o->n < most * 32 ? o->n : most * 32,
			     sizeof(*b.got_value)); /* length of a dense message */
	b.bytes = calloc(b.capacity, 1);
	b.sketch.cells = calloc(SKETCH_ROWS * (2 * most + 1), sizeof(*b.sketch.cells));
	b.sketch.estimate = calloc(o->n, sizeof(*b.sketch.estimate));
	if (b.sketch.cells && b.sketch.estimate && b.x && b.index && b.got && b.value &&
	    b.got_value && b.bytes) {
		dct_matrix_make(&b.dct.matrix, DCT_MOST);
		data_fill(o->distribution, o->seed, b.x, o->n);
		print_head(o);
		rc = densities_run(o, one_count, &b) ? -1 : 0;
	} else {
		fprintf(stderr, "sluice-bench: no memory for vectors of %llu elements\n",
			(unsigned long long)o->n);
	}
	free(b.x);
	free(b.index);
	free(b.got);
	free(b.value);
	free(b.got_value);
	free(b.bytes);
	free(b.sketch.cells);
	free(b.sketch.estimate);
	/* This use of the sum keeps the compiler from removing it. */
	return rc || b.sink == 1 ? rc : 0;
}
