/* SPDX-License-Identifier: BSD-3-Clause
 * Encodes and decodes records, and checks whether the records of a job agree. record.h has the
 * layout. */
#include "slurm/record.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/wire_version.h"
#include "sluice.h"

enum {
	AT_MAGIC = 0,
	AT_HEADER = 4,
	AT_PAYLOAD = 8,
	AT_WIRE = 12,
	AT_RANK = 16,
	AT_VERSION = 20,
	AT_BUILD = 52,
	AT_BOOT = 100,
	AT_NODE = 116
};

static const uint8_t magic[4] = { 'S', 'L', 'C', 'D' };

static int printable(uint8_t c)
{
	return c >= 0x20 && c < 0x7f;
}

static void put_text(uint8_t *to, size_t bytes, const char *text)
{
	size_t i;

	for (i = 0; i + 1 < bytes && text[i]; i++)
		to[i] = printable((uint8_t)text[i]) ? (uint8_t)text[i] : '?';
	memset(to + i, 0, bytes - i);
}

/* Copies a text field. Returns 1 if the field has printable text, followed by at least one zero and
 * only zeros. */
static int get_text(char *to, const uint8_t *from, size_t bytes)
{
	size_t i = 0;

	while (i < bytes && printable(from[i]))
		i++;
	if (i == bytes)
		return 0;
	memcpy(to, from, bytes);
	for (; i < bytes; i++)
		if (from[i])
			return 0;
	return 1;
}

size_t record_encode(const struct rank_record *record, uint32_t rank, uint8_t out[RECORD_MAX_BYTES])
{
	size_t n = RECORD_HEADER_BYTES;

	memcpy(out + AT_MAGIC, magic, sizeof(magic));
	put_le32(out + AT_HEADER, RECORD_HEADER_BYTES);
	put_le32(out + AT_PAYLOAD, record->payload_bytes);
	put_le32(out + AT_WIRE, record->wire_version);
	put_le32(out + AT_RANK, rank);
	put_text(out + AT_VERSION, sizeof(record->version), record->version);
	put_text(out + AT_BUILD, sizeof(record->build), record->build);
	memcpy(out + AT_BOOT, record->boot_id, sizeof(record->boot_id));
	put_text(out + AT_NODE, sizeof(record->node), record->node);
	memcpy(out + n, record->payload, record->payload_bytes);
	n += record->payload_bytes;
	put_le32(out + n, crc32c(0, out, n));
	return n + 4;
}

int record_decode(const uint8_t *bytes, size_t n, uint32_t rank, struct rank_record *out,
		  const char **why)
{
	uint64_t header, payload;

	if (n < RECORD_HEADER_BYTES + 4)
		return refuse_bytes(why, "it is too short");
	if (n > RECORD_ACCEPT_BYTES)
		return refuse_bytes(why, "it is too long");
	if (memcmp(bytes + AT_MAGIC, magic, sizeof(magic)) != 0)
		return refuse_bytes(why, "it does not begin with the magic of a Sluice record");
	header = get_le32(bytes + AT_HEADER);
	payload = get_le32(bytes + AT_PAYLOAD);
	if (header < RECORD_HEADER_BYTES || header + payload + 4 != n)
		return refuse_bytes(why, "its lengths disagree");
	if (get_le32(bytes + n - 4) != crc32c(0, bytes, n - 4))
		return refuse_bytes(why, "its checksum is wrong");
	if (get_le32(bytes + AT_RANK) != rank)
		return refuse_bytes(why, "it is for another rank");
	memset(out, 0, sizeof(*out));
	out->wire_version = get_le32(bytes + AT_WIRE);
	if (!get_text(out->version, bytes + AT_VERSION, sizeof(out->version)) ||
	    !get_text(out->build, bytes + AT_BUILD, sizeof(out->build)) ||
	    !get_text(out->node, bytes + AT_NODE, sizeof(out->node)))
		return refuse_bytes(why, "a text field is not printable or not terminated");
	memcpy(out->boot_id, bytes + AT_BOOT, sizeof(out->boot_id));
	if (out->wire_version != SLUICE_WIRE_VERSION)
		return 0;
	if (payload > RECORD_PAYLOAD_BYTES)
		return refuse_bytes(why, "its payload is longer than any transport's");
	out->payload_bytes = (uint32_t)payload;
	memcpy(out->payload, bytes + header, payload);
	return 0;
}

static void warn_of_builds(const struct rank_record *records, int size)
{
	int rank;

	for (rank = 1; rank < size; rank++)
		if (strcmp(records[rank].build, records[0].build) != 0) {
			log_line(LOG_WARN, "slurm",
				 "rank 0 on node %s runs a build by '%s', and rank %d on node %s "
				 "runs one by '%s': the versions agree, but use the same build on "
				 "all nodes to get the same results everywhere",
				 records[0].node, records[0].build, rank, records[rank].node,
				 records[rank].build);
			return;
		}
}

static int versions_differ(const struct rank_record *a, const struct rank_record *b)
{
	return a->wire_version != b->wire_version || strcmp(a->version, b->version) != 0;
}

int record_compare(const struct rank_record *records, int size, int own_rank)
{
	int rank = 1;

	while (rank < size && !versions_differ(&records[0], &records[rank]))
		rank++;
	if (rank < size)
		return fail(SLUICE_EPEER,
			    "rank 0 on node %s runs Sluice %s (wire %u), but rank %d on node %s "
			    "runs Sluice %s (wire %u): start all ranks with the same libsluice "
			    "(compare LD_LIBRARY_PATH and the installed packages of these nodes)",
			    records[0].node, records[0].version, records[0].wire_version, rank,
			    records[rank].node, records[rank].version, records[rank].wire_version);
	if (own_rank == 0)
		warn_of_builds(records, size);
	return 0;
}
