/* SPDX-License-Identifier: BSD-3-Clause
 * A vector of the program: one run of memory, or several pieces, each with its element type, in
 * host memory or on a device. The loops over a vector read and write host memory block by block,
 * wherever a piece ends. Pieces on a device are staged first: a copy in host memory replaces them.
 * One run of floats is the fast case, which is read and written in place. Called by the worker half
 * and by checkpoint.c, for gradients, means and parameters. */
#ifndef RUNTIME_VECTOR_H
#define RUNTIME_VECTOR_H
#include "base/device.h"
#include "compress/quantize.h"
#include "sluice_vector.h"

struct vector_piece {
	uint8_t *data;       /* memory that loops read and write: `given`, or a staged copy of it */
	void *given;         /* the program's memory */
	uint64_t begin, end; /* range of coordinates in the whole vector */
	enum value_type type;
	float scale; /* for 8-bit elements: factor of their codes */
};

/* A vector in one or more pieces. Must be zeroed before the first use. The list and the staging
 * memory are reused by later vectors; the program owns the memory of the pieces. Only vector.c
 * reads the members. */
struct vector {
	struct vector_piece one; /* the first piece */
	/* All pieces if there are several, in ascending order and without gaps. */
	struct vector_piece *list;
	size_t n, room;
	const struct device_ops *ops; /* device of the staged pieces; NULL: no piece is staged */
	void *stream;
	struct memory copy; /* pinned memory of the staged pieces */
	const struct device_ops *owner;
};

/* ---- the pieces ---- */
/* Returns SLUICE_EINVAL unless type is SLUICE_F32, SLUICE_F16 or SLUICE_BF16, or, for a gradient,
 * an 8-bit type. field, function: the argument and the caller, for the message. */
int vector_check_type(int type, int gradient, const char *field, const char *function);

/* vector_of() returns a vector of one piece with count elements. vector_run() sets v to such a
 * vector, and keeps the memory of list and copy. */
struct vector vector_of(const void *data, uint64_t count, enum value_type type, float scale);
void vector_run(struct vector *v, const void *data, uint64_t count, enum value_type type,
		float scale);
/* Sets the vector to the n given pieces, and leaves out empty ones. scale applies to 8-bit pieces
 * without their own scale. A scale of 0 means that the pieces are not a gradient, so they must not
 * have 8 bits. Returns 0, SLUICE_ENOMEM, or SLUICE_EINVAL (no data, an invalid type or scale, or a
 * total that is not count). After an error the vector has no pieces. */
int vector_pieces(struct vector *v, const sluice_segment *given, size_t n, uint64_t count,
		  float scale, const char *function);
void vector_free(struct vector *v);

/* Returns the number of pieces. */
size_t vector_number(const struct vector *v);
/* vector_begin() returns the first coordinate of piece i, or the number of elements if i is the
 * number of pieces. vector_given() returns the piece's memory as the program gave it. */
uint64_t vector_begin(const struct vector *v, size_t i);
void *vector_given(const struct vector *v, size_t i);
/* Returns the element type of piece i. */
enum value_type vector_type(const struct vector *v, size_t i);
/* Returns 1 if all pieces have this type and, for an 8-bit type, this scale. */
int vector_alike(const struct vector *v, enum value_type type, float scale);
/* Returns 1 if any piece has elements of fewer than 32 bits. */
int vector_narrow(const struct vector *v);

/* ---- in host memory ---- */
/* Returns the floats if the vector is one piece of floats, otherwise NULL. */
static inline float *vector_floats(const struct vector *v)
{
	return v->n == 1 && v->one.type == VALUE_F32 ? (float *)(void *)v->one.data : NULL;
}

/* Returns the memory of the vector if it is one piece, otherwise NULL. vector_move() replaces that
 * memory. */
static inline const void *vector_memory(const struct vector *v)
{
	return v->n == 1 ? v->one.data : NULL;
}
void vector_move(struct vector *v, const void *data);

/* Returns elements at .. at + n - 1 as floats. If they are in several pieces or narrower than 32
 * bits, this copies them to room; otherwise it returns them in place. NaN and infinity are passed
 * on. */
const float *vector_read(const struct vector *v, uint64_t at, size_t n, float *room);
/* Sets elements at .. at + n - 1. 16-bit elements are rounded to nearest even, and values beyond
 * their range become infinite. */
void vector_write(const struct vector *v, uint64_t at, const float *value, size_t n);
void vector_zero(const struct vector *v);
/* Copies all elements to one array of floats. */
void vector_join(const struct vector *v, float *to);
/* Adds value[i] to the element at coordinate first + index[i], for each i < n. index NULL stands
 * for 0, 1, 2, ...; other indices ascend. With `set`, value[i] replaces the element instead. 16-bit
 * elements must be zero before an addition. */
void vector_change(const struct vector *v, uint64_t first, const uint32_t *index,
		   const float *value, uint32_t n, int set);
/* Copies elements of flat, a whole vector, to the elements at the same coordinates. */
void vector_follow(const struct vector *v, uint64_t first, const uint32_t *index, uint32_t n,
		   const float *flat);

/* ---- on a device ----
 *
 * Each function makes a piece's device current while it works there. The application owns the
 * stream. */
/* Returns 1 if all pieces are in device memory, 0 if some piece is not, or SLUICE_EGPU. */
int vector_there(const struct vector *v, void *stream);
/* Points each piece on a device to host memory. Nothing is copied yet. Fails with SLUICE_ENOMEM, or
 * with SLUICE_EGPU if the memory belongs to another device or the stream is being captured. */
int vector_stage(struct vector *v, void *stream, const char *function);
/* Returns 1 if the last vector_stage() found a piece on a device. */
int vector_staged(const struct vector *v);
/* vector_fetch() copies the staged pieces to the host, and vector_send() copies them back. Both
 * wait, and fail with SLUICE_EGPU. */
int vector_fetch(const struct vector *v, const char *function);
int vector_send(const struct vector *v, const char *function);
/* These functions enqueue work, and return 0 or -1 like the operations of a device.
 * vector_join_there() copies all pieces, which must have the same type, to one array on the device.
 * vector_write_there() sets all elements from an array of floats on the device, and rounds to 16
 * bits if needed. */
int vector_join_there(const struct vector *v, const struct device_ops *ops, void *to, void *stream);
int vector_write_there(const struct vector *v, const struct device_ops *ops,
		       struct device_compressor *c, const float *from, void *stream);
/* Sets *host to all elements as floats in host memory: in place, or a copy. vector_return() writes
 * a copy back, unless `failed` is set, and returns `failed` or its own error. The staging memory is
 * kept until vector_release() or vector_free(). For a vector without pieces, *host is NULL. */
int vector_borrow(struct vector *v, void *stream, const char *function, float **host);
int vector_return(struct vector *v, float *host, int failed, const char *function);
void vector_release(struct vector *v);
#endif
