/* SPDX-License-Identifier: BSD-3-Clause
 * A vector of the program that lies in several pieces of memory, each with elements of a type of
 * its own. The loops over a vector read and write it block by block, wherever a piece ends. Called
 * by the worker half, for gradients, means and parameters. Pure. */
#ifndef RUNTIME_SEGMENTS_H
#define RUNTIME_SEGMENTS_H
#include "compress/quantize.h"
#include "sluice.h"

/* Must be zeroed before the first use. The list grows as needed and is kept; the memory of the
 * pieces is the program's. */
struct segments {
	struct segment {
		uint8_t *data;       /* what the loops read and write: the program's memory, or */
		void *given;         /* (this is always the program's) a copy in its place */
		uint64_t begin, end; /* coordinates of the whole vector */
		enum value_type type;
		float scale; /* of 8 bits */
	} * of;              /* ascending, without gaps and without empty pieces */
	size_t n, room;
};

/* SLUICE_EINVAL unless type is SLUICE_F32, SLUICE_F16 or SLUICE_BF16, or, of a gradient, one of 8
 * bits. field: what has it, and function: the caller, for the message. */
int segments_check_type(int type, int gradient, const char *field, const char *function);

/* Returns 0, SLUICE_EINVAL (no data, a type or scale that does not exist, or other than count
 * elements in all) or SLUICE_ENOMEM. scale: of pieces of 8 bits that name none; 0: the pieces are
 * no gradient, and have no such types. function: the caller, for the message. */
int segments_set(struct segments *s, const sluice_segment *given, size_t n, uint64_t count,
		 float scale, const char *function);
void segments_free(struct segments *s);
/* Forgets the pieces, and keeps the list's memory. */
void segments_clear(struct segments *s);
/* How many pieces there are: 0 before segments_set() and after segments_clear(). */
size_t segments_number(const struct segments *s);
/* The first coordinate of piece i, its memory as the program gave it, its length in bytes. */
uint64_t segments_begin(const struct segments *s, size_t i);
void *segments_given(const struct segments *s, size_t i);
size_t segments_bytes(const struct segments *s, size_t i);
uint64_t segments_count(const struct segments *s, size_t i);
enum value_type segments_type(const struct segments *s, size_t i);
/* Whether all pieces have elements of this type, and, if it has 8 bits, of this scale. */
int segments_alike(const struct segments *s, enum value_type type, float scale);
/* Puts `copy` in the place of piece i for all that follows; and that copy, or NULL. */
void segments_replace(struct segments *s, size_t i, void *copy);
void *segments_copy(const struct segments *s, size_t i);
/* Whether any piece has elements of fewer than 32 bits. */
int segments_narrow(const struct segments *s);

/* Elements at .. at + n - 1 as floats: where they lie, or, if they are in several pieces or of
 * fewer bits, written to room. NaN and infinity are passed on. */
const float *segments_read(const struct segments *s, uint64_t at, size_t n, float *room);
/* Sets elements at .. at + n - 1; 16 bits are rounded to nearest even, and what is beyond their
 * range becomes infinite. */
void segments_write(const struct segments *s, uint64_t at, const float *value, size_t n);
void segments_zero(const struct segments *s);
/* Copies all elements together. */
void segments_gather(const struct segments *s, float *to);
/* Adds value[i] at coordinate first + index[i], i < n; index NULL: first + i. set: it takes the
 * place of what is there. Elements of 16 bits must be zero before something is added. */
void segments_change(const struct segments *s, uint64_t first, const uint32_t *index,
		     const float *value, uint32_t n, int set);
/* Sets the element at each such coordinate to that of flat, the whole vector. */
void segments_follow(const struct segments *s, uint64_t first, const uint32_t *index, uint32_t n,
		     const float *flat);
#endif
