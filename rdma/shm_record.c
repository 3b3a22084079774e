/* SPDX-License-Identifier: BSD-3-Clause
 * See shm_record.h. Fixed little-endian fields, CRC32C at the end. */
#include "rdma/shm_record.h"
#include "base/bytes.h"
#include "base/error.h"
#include "rdma/mailbox.h"
#include "sluice.h"
#include <inttypes.h>
#include <limits.h>
#include <string.h>

enum { RECORD_MAGIC = 0x4d484c53 }; /* "SLHM" */
enum {                              /* byte offsets */
       AT_MAGIC = 0,
       AT_RANK = 4,
       AT_SIZE = 8,
       AT_PID = 12,
       AT_UID = 16,
       AT_CAPACITY = 20,
       AT_WAKE = 24,
       AT_START = 32,
       AT_NAMESPACE = 40,
       AT_MAILBOX = 48,
       AT_CONTROL = 112,
       AT_CRC = 188
};

void shm_record_encode(const struct shm_record *record, uint8_t out[SHM_RECORD_BYTES])
{
	memset(out, 0, SHM_RECORD_BYTES);
	put_le32(out + AT_MAGIC, RECORD_MAGIC);
	put_le32(out + AT_RANK, (uint32_t)record->rank);
	put_le32(out + AT_SIZE, (uint32_t)record->size);
	put_le32(out + AT_PID, (uint32_t)record->process.pid);
	put_le32(out + AT_UID, record->process.uid);
	put_le32(out + AT_CAPACITY, record->capacity);
	put_le32(out + AT_WAKE, (uint32_t)record->wake_fd);
	put_le64(out + AT_START, record->process.start_time);
	put_le64(out + AT_NAMESPACE, record->process.pid_namespace);
	memcpy(out + AT_MAILBOX, record->mailbox, REGION_HEAD_BYTES);
	memcpy(out + AT_CONTROL, record->control, REGION_HEAD_BYTES);
	put_le32(out + AT_CRC, crc32c(0, out, AT_CRC));
}

int shm_record_decode(const uint8_t *bytes, size_t len, int peer, int size, struct shm_record *out,
		      struct descriptor *mailbox_out)
{
	struct descriptor mailbox;
	uint32_t rank, of, pid, capacity, wake_fd;
	int rc;

	if (len != SHM_RECORD_BYTES || get_le32(bytes + AT_MAGIC) != RECORD_MAGIC)
		return fail(SLUICE_EWIRE,
			    "rank %d sent %zu bytes that are not a valid shm address record", peer,
			    len);
	if (get_le32(bytes + AT_CRC) != crc32c(0, bytes, AT_CRC))
		return fail(SLUICE_EWIRE,
			    "the shm address record of rank %d is damaged (its CRC differs)", peer);
	rank = get_le32(bytes + AT_RANK);
	of = get_le32(bytes + AT_SIZE);
	if (rank != (uint32_t)peer || of != (uint32_t)size)
		return fail(SLUICE_EWIRE,
			    "the shm address record of rank %d of %d names rank %" PRIu32
			    " of %" PRIu32,
			    peer, size, rank, of);
	rc = descriptor_decode(bytes + AT_MAILBOX, peer, &mailbox);
	if (rc)
		return rc;
	pid = get_le32(bytes + AT_PID);
	capacity = get_le32(bytes + AT_CAPACITY);
	wake_fd = get_le32(bytes + AT_WAKE);
	if (pid == 0 || pid > INT_MAX || mailbox.pid != (pid_t)pid || wake_fd > INT_MAX ||
	    mailbox_capacity(capacity) != capacity || capacity == 0 ||
	    mailbox.access != REGION_WRITE || mailbox.bytes != mailbox_bytes(of, capacity))
		return fail(SLUICE_EWIRE,
			    "the shm address record of rank %d is impossible: pid %" PRIu32
			    ", mailbox of %" PRIu64 " bytes for %" PRIu32 " entries a rank",
			    peer, pid, mailbox.bytes, capacity);
	out->rank = peer;
	out->size = size;
	out->process = (struct process){
		.pid = (pid_t)pid,
		.uid = get_le32(bytes + AT_UID),
		.start_time = get_le64(bytes + AT_START),
		.pid_namespace = get_le64(bytes + AT_NAMESPACE),
	};
	out->capacity = capacity;
	out->wake_fd = (int)wake_fd;
	memcpy(out->mailbox, bytes + AT_MAILBOX, REGION_HEAD_BYTES);
	memcpy(out->control, bytes + AT_CONTROL, REGION_HEAD_BYTES);
	*mailbox_out = mailbox;
	return SLUICE_OK;
}
