/* SPDX-License-Identifier: BSD-3-Clause
 * See ofi_count.h. */
#include "rdma/ofi_count.h"
#include "base/error.h"
#include "sluice.h"
#include <stdlib.h>

enum {
	NUMBER_SHIFT = 18,
	NUMBER_MASK = (1 << 14) - 1,
	KIND_SHIFT = 16,
	HALF_MASK = 0xffff,
	ARRIVED = 1 << 18 /* set in an entry of places[] whose put has arrived; the lower bits are
			     its kind and half */
};
_Static_assert(COUNT_PLACES <= (NUMBER_MASK + 1) / 2, "a late number looks like a later one");

struct arrivals {
	uint32_t next; /* the lowest number whose put was not delivered */
	uint16_t low, high;
	int has_low;
	uint32_t places[COUNT_PLACES]; /* indexed by number; 0: the put has not arrived */
};

uint32_t count_word(enum count_kind kind, uint32_t number, uint16_t half)
{
	return (number & NUMBER_MASK) << NUMBER_SHIFT | (uint32_t)kind << KIND_SHIFT | half;
}

int arrivals_open(struct arrivals **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? SLUICE_OK :
		      fail(SLUICE_ENOMEM, "ofi: no memory for %zu bytes", sizeof(**out));
}

void arrivals_close(struct arrivals **a)
{
	free(*a);
	*a = NULL;
}

int arrivals_take(struct arrivals *a, uint32_t word)
{
	const uint32_t number = word >> NUMBER_SHIFT;
	uint32_t *place = &a->places[number % COUNT_PLACES];

	if (((number - a->next) & NUMBER_MASK) >= COUNT_PLACES || *place)
		return -1;
	*place = ARRIVED | (word & (ARRIVED - 1));
	return 0;
}

/* Takes the half of an immediate that a put carries. Returns 1, 0 or -1 like arrivals_next(). */
static int take_half(struct arrivals *a, enum count_kind kind, uint16_t half, uint32_t *imm)
{
	switch (kind) {
	case COUNT_BYTES: return 0;
	case COUNT_LOW:
		if (a->has_low)
			return -1;
		a->low = half;
		a->has_low = 1;
		return 0;
	case COUNT_HIGH:
		if (!a->has_low)
			return -1;
		a->high = half;
		break;
	case COUNT_SAME:
		if (a->has_low)
			return -1;
		a->low = half;
		break;
	}
	a->has_low = 0;
	*imm = (uint32_t)a->high << 16 | a->low;
	return 1;
}

int arrivals_next(struct arrivals *a, uint32_t *imm)
{
	uint32_t *place, word;
	int rc = 0;

	while (!rc && *(place = &a->places[a->next % COUNT_PLACES])) {
		word = *place;
		*place = 0;
		a->next = (a->next + 1) & NUMBER_MASK;
		rc = take_half(a, (enum count_kind)(word >> KIND_SHIFT & 3),
			       (uint16_t)(word & HALF_MASK), imm);
	}
	return rc;
}
