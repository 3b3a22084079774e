/* SPDX-License-Identifier: BSD-3-Clause
 * See dense.h. */
#include "dense.h"
#include "base/bytes.h"
#include "select.h"
#include "sluice.h"

int dense_plain(const struct message *m)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && m->kind != MESSAGE_SUPPORT && m->coding == CODING_DENSE &&
	       m->values.type == VALUE_F32 && m->payload_bytes == (uint64_t)m->count * sizeof(float);
}

int dense_take(const uint8_t *from, uint32_t n, float *value, uint32_t *crc)
{
	memcpy(value, from, n * sizeof *value);
	/* From here on the compiler may not look where they came from. */
	__asm__ volatile("" : : "r"(value), "r"(from) : "memory");
	*crc = crc32c(*crc, value, n * sizeof *value);
	return first_nonfinite(value, n) == n ? 0 : SLUICE_EWIRE;
}

void dense_put(const float *value, uint32_t n, uint8_t *to, uint32_t *crc)
{
	*crc = crc32c(*crc, value, n * sizeof *value);
	memcpy(to, value, n * sizeof *value);
}
