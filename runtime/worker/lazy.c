/* SPDX-License-Identifier: BSD-3-Clause
 * See lazy.h. Sums are in double: squares of small steps, divided by the square of the learning
 * rate. */
#include "worker/lazy.h"
#include <float.h>
#include <string.h>

static uint64_t bits_of(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static double double_of(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

void lazy_save(const struct lazy *l, uint64_t numbers[LAZY_NUMBERS])
{
	numbers[0] = l->changes;
	numbers[1] = l->skipped;
	numbers[2] = (uint64_t)l->uploaded;
	numbers[3] = bits_of(l->last_error);
	for (int i = 0; i < LAZY_WINDOW_MAX; i++)
		numbers[4 + i] = bits_of(l->moved[i]);
}

const char *lazy_judge(const struct lazy *l, uint64_t steps, const uint64_t numbers[LAZY_NUMBERS])
{
	const uint64_t changes = numbers[0], skipped = numbers[1];

	if (changes > steps || skipped > changes)
		return "it counts more changes of the model, or more skipped pushes, than there "
		       "were steps";
	if (numbers[2] > 1)
		return "whether there was an upload is neither 0 nor 1";
	for (int i = 3; i < LAZY_NUMBERS; i++) {
		const double squared = double_of(numbers[i]);

		if (!(squared >= 0 && squared <= DBL_MAX))
			return "a squared norm is negative or not finite";
		if (i >= 4 && squared > 0 &&
		    ((uint64_t)i - 4 >= changes || i - 4 >= (int)l->window))
			return "it remembers a change of the model that was not made";
	}
	return NULL;
}

void lazy_load(struct lazy *l, const uint64_t numbers[LAZY_NUMBERS])
{
	l->changes = numbers[0];
	l->skipped = numbers[1];
	l->uploaded = numbers[2] != 0;
	l->last_error = double_of(numbers[3]);
	for (int i = 0; i < LAZY_WINDOW_MAX; i++)
		l->moved[i] = double_of(numbers[4 + i]);
}

void lazy_moved(struct lazy *l, double squared)
{
	l->moved[l->changes++ % l->window] = squared;
}

double lazy_allowance(const struct lazy *l, float lr)
{
	double sum = 0;

	for (uint32_t i = 0; i < l->window; i++)
		sum += l->weight * l->moved[i];
	return sum / ((double)lr * (double)lr);
}

/* The first push is always sent, and one after `longest` that were not. */
static int must_upload(const struct lazy *l)
{
	return !l->uploaded || (l->longest && l->skipped >= l->longest);
}

int lazy_skips(const struct lazy *l, float lr, double innovation, double error)
{
	return !must_upload(l) && innovation <= lazy_allowance(l, lr) + 3 * (error + l->last_error);
}

int lazy_skips_unseen(const struct lazy *l, float lr, float smoothness, double distance)
{
	return !must_upload(l) &&
	       (double)smoothness * (double)smoothness * distance <= lazy_allowance(l, lr);
}

void lazy_uploaded(struct lazy *l, double error)
{
	l->last_error = error;
	l->skipped = 0;
	l->uploaded = 1;
}

void lazy_skipped(struct lazy *l)
{
	l->skipped++;
}
