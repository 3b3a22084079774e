/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzz target for what ranks send each other at the start: records through the launcher, and in
 * them the shm transport's record and region descriptors. Input: one byte that chooses the decoder,
 * one of options, then the bytes of another process. Accepted input is encoded again and must give
 * the same bytes. */
#include "fuzz.h"
#include "base/bytes.h"
#include "compress/message.h"
#include "job/findings.h"
#include "job/state.h"
#include "rdma/mailbox.h"
#include "rdma/shm_record.h"
#include "slurm/record.h"

/* Options. Checksums, lengths and a record's wire version are corrected unless the fuzzer sets
 * these. */
enum { LEAVE_CRC = 1, LEAVE_LENGTHS = 2, LEAVE_INNER_CRC = 4, LEAVE_WIRE = 8 };
enum { AT_WIRE = 12 };
enum { RANK = 3, RANKS = 8 };

static void seal(uint8_t *bytes, size_t at)
{
	put_le32(bytes + at, crc32c(0, bytes, at));
}

/* ---- records ----------------------------------------------------------------- */

static void fix_card(uint8_t *bytes, size_t n, unsigned options)
{
	if (n < RECORD_HEADER_BYTES + 4)
		return;
	if (!(options & LEAVE_LENGTHS)) {
		uint32_t header = get_le32(bytes + 4);

		if (header < RECORD_HEADER_BYTES || header > n - 4)
			header = RECORD_HEADER_BYTES;
		memcpy(bytes, "SLCD", 4);
		put_le32(bytes + 4, header);
		put_le32(bytes + 8, (uint32_t)(n - 4 - header));
	}
	if (!(options & LEAVE_WIRE))
		put_le32(bytes + AT_WIRE, SLUICE_WIRE_VERSION);
	if (!(options & LEAVE_CRC))
		seal(bytes, n - 4);
}

static void expect_text(const char *text, size_t bytes)
{
	size_t n = strnlen(text, bytes);

	require(n < bytes, "a text without end was accepted");
	for (size_t i = 0; i < bytes; i++)
		require(i < n ? text[i] >= 0x20 && text[i] < 0x7f : !text[i],
			"a text that cannot be printed was accepted");
}

/* Calls the functions by which bootstrap.c then compares records and describes differences. */
static void compare(const struct rank_record *record)
{
	static const struct rank_record own = { .wire_version = SLUICE_WIRE_VERSION,
						.version = "1.2.3",
						.build = "fuzz",
						.node = "n0" };
	const struct rank_record records[2] = { own, *record };
	int rc;

	begin();
	rc = record_compare(records, 2, 0);
	if (rc)
		expect_refusal(rc, SLUICE_EPEER, SLUICE_EPEER);
	require(!rc == (record->wire_version == own.wire_version &&
			!strcmp(record->version, own.version)),
		"versions were compared wrongly");
}

static void expect_line(int level, const char *line, void *context)
{
	require((level == LOG_ERROR || level == LOG_WARN) && !strpbrk(line, "\n\r\033"),
		"a finding was not logged as a line");
	(void)context;
}

/* Lets rank 0 log what the record of rank 1 says that it has found. */
static void log_findings(const struct rank_record *record)
{
	struct rank_record records[2] = { { .node = "n0" }, *record };
	const sluice_job job = { .rank = 0, .size = 2, .records = records };

	sluice_set_log(expect_line, NULL);
	findings_log_records(&job);
	begin();
}

static void fuzz_card(uint8_t *bytes, size_t n, unsigned options)
{
	struct rank_record record, again;
	uint8_t out[RECORD_MAX_BYTES];
	const char *why = NULL;
	size_t length;
	int rc;

	fix_card(bytes, n, options);
	memset(&record, 0xa5, sizeof(record));
	rc = record_decode(bytes, n, RANK, &record, &why);
	if (rc) {
		require(rc == SLUICE_EWIRE && why && *why, "refused without a reason");
		return;
	}
	expect_text(record.version, sizeof(record.version));
	expect_text(record.build, sizeof(record.build));
	expect_text(record.node, sizeof(record.node));
	require(record.payload_bytes <= RECORD_PAYLOAD_BYTES, "too long a payload was accepted");
	require(record.wire_version == SLUICE_WIRE_VERSION || !record.payload_bytes,
		"a payload of another wire version was accepted");

	length = record_encode(&record, RANK, out);
	require(length == RECORD_HEADER_BYTES + record.payload_bytes + 4,
		"length of the encoded record");
	if (get_le32(bytes + 4) == RECORD_HEADER_BYTES &&
	    record.wire_version == SLUICE_WIRE_VERSION)
		require(length == n && !memcmp(out, bytes, n), "the encoded record differs");
	require(!record_decode(out, length, RANK, &again, &why), "own record refused");
	require(!memcmp(&record, &again, sizeof(record)), "the record changed");
	compare(&record);
	log_findings(&record);
}

/* ---- regions --------------------------------------------------------------- */

static void fix_descriptor(uint8_t *bytes, int leave_crc)
{
	if (!leave_crc)
		seal(bytes, REGION_HEAD_BYTES - 4);
}

/* Compares the descriptor with the bytes that its owner would write, except for the owner's pid. */
static void expect_descriptor(const struct descriptor *d, const uint8_t *bytes)
{
	const struct region region = {
		.bytes = (size_t)d->bytes, .access = d->access, .fd = d->fd, .nonce = d->nonce
	};
	uint8_t out[REGION_HEAD_BYTES];

	require(d->pid > 0 && d->fd >= 0 && d->bytes && d->access &&
			!(d->access & ~(unsigned)(REGION_READ | REGION_WRITE)) &&
			region_file_bytes((size_t)d->bytes, HUGE_NONE) > d->bytes,
		"an impossible region was accepted");
	descriptor_of(&region, out);
	put_le32(out + 8, (uint32_t)d->pid);
	seal(out, sizeof(out) - 4);
	require(!memcmp(out, bytes, sizeof(out)), "the encoded descriptor differs");
}

static void fuzz_descriptor(uint8_t *bytes, size_t n, unsigned options)
{
	uint8_t *exact;
	struct descriptor d;
	int rc;

	if (n < REGION_HEAD_BYTES) /* the parameter is an array, whose length the caller knows */
		return;
	exact = get_memory(REGION_HEAD_BYTES);
	memcpy(exact, bytes, REGION_HEAD_BYTES);
	fix_descriptor(exact, options & LEAVE_CRC);
	begin();
	rc = descriptor_decode(exact, RANK, &d);
	if (rc)
		expect_refusal(rc, SLUICE_EWIRE, SLUICE_EWIRE);
	else
		expect_descriptor(&d, exact);
	free(exact);
}

/* ---- records of the shm transport -------------------------------------------- */

static void fix_shm_card(uint8_t *bytes, size_t n, unsigned options)
{
	if (n != SHM_RECORD_BYTES)
		return;
	if (!(options & LEAVE_LENGTHS))
		put_le64(bytes + 48 + 16, mailbox_bytes(RANKS, get_le32(bytes + 20)));
	fix_descriptor(bytes + 48, options & LEAVE_INNER_CRC);
	if (!(options & LEAVE_CRC))
		seal(bytes, n - 4);
}

static void expect_same_shm_card(const struct shm_record *a, const struct shm_record *b)
{
	require(a->rank == b->rank && a->size == b->size && a->capacity == b->capacity &&
			a->wake_fd == b->wake_fd && a->process.pid == b->process.pid &&
			a->process.uid == b->process.uid &&
			a->process.start_time == b->process.start_time &&
			a->process.pid_namespace == b->process.pid_namespace &&
			!memcmp(a->mailbox, b->mailbox, sizeof(a->mailbox)) &&
			!memcmp(a->control, b->control, sizeof(a->control)),
		"the shm record changed");
}

static void fuzz_shm_card(uint8_t *bytes, size_t n, unsigned options)
{
	struct descriptor mailbox, mailbox_again;
	struct shm_record record, again;
	uint8_t out[SHM_RECORD_BYTES];
	int rc;

	fix_shm_card(bytes, n, options);
	begin();
	rc = shm_record_decode(bytes, n, RANK, RANKS, &record, &mailbox);
	if (rc) {
		expect_refusal(rc, SLUICE_EWIRE, SLUICE_EWIRE);
		return;
	}
	expect_descriptor(&mailbox, record.mailbox);
	require(record.rank == RANK && record.size == RANKS && record.process.pid > 0 &&
			record.process.pid == mailbox.pid && record.wake_fd >= 0,
		"an impossible record was accepted");
	require(record.capacity && mailbox_capacity(record.capacity) == record.capacity &&
			mailbox.access == REGION_WRITE &&
			mailbox.bytes == mailbox_bytes(RANKS, record.capacity),
		"a wrong mailbox was accepted");

	shm_record_encode(&record, out);
	require(!shm_record_decode(out, sizeof(out), RANK, RANKS, &again, &mailbox_again),
		"own shm record refused");
	expect_same_shm_card(&record, &again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes;
	size_t n;

	if (size < 2)
		return 0;
	n = size - 2;
	bytes = get_memory(n);
	if (n)
		memcpy(bytes, data + 2, n);
	switch (data[0] % 3) {
	case 0: fuzz_card(bytes, n, data[1]); break;
	case 1: fuzz_shm_card(bytes, n, data[1]); break;
	default: fuzz_descriptor(bytes, n, data[1]); break;
	}
	free(bytes);
	return 0;
}
