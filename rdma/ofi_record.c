/* SPDX-License-Identifier: BSD-3-Clause
 * See ofi_record.h. A record: magic u32, rank u32, name of the provider 32, how puts announce
 * themselves u32, bytes of the address u32, address; little-endian. */
#include "rdma/ofi_record.h"
#include "base/bytes.h"
#include "base/error.h"
#include "sluice.h"
#include <stdio.h>
#include <string.h>

enum {
	MAGIC = 0x4344464f, /* "OFDC" */
	PROVIDER_AT = 8,
	PROVIDER_BYTES = 32,
	NOTICE_AT = PROVIDER_AT + PROVIDER_BYTES,
	NAME_AT = NOTICE_AT + 8,
	NAME_BYTES = 128,
	RECORD_BYTES = NAME_AT + NAME_BYTES
};
_Static_assert((int)RECORD_BYTES <= (int)TRANSPORT_RECORD_BYTES, "the record does not fit");

int ofi_record_write(const struct ofi_fabric *fabric, int rank, uint8_t *bytes, size_t *len_out)
{
	size_t n;
	int rc;

	memset(bytes, 0, RECORD_BYTES);
	put_le32(bytes, MAGIC);
	put_le32(bytes + 4, (uint32_t)rank);
	snprintf((char *)bytes + PROVIDER_AT, PROVIDER_BYTES, "%s", ofi_fabric_provider(fabric));
	rc = ofi_fabric_name(fabric, bytes + NAME_AT, NAME_BYTES, &n);
	if (rc)
		return rc;
	put_le32(bytes + NOTICE_AT, (uint32_t)ofi_fabric_notice(fabric));
	put_le32(bytes + NAME_AT - 4, (uint32_t)n);
	*len_out = NAME_AT + n;
	return SLUICE_OK;
}

const uint8_t *ofi_record_check(const struct ofi_fabric *fabric, int own_rank, int rank,
				const uint8_t *record, size_t len, enum ofi_notice *notice, int *rc)
{
	const char *own = ofi_fabric_provider(fabric);
	char provider[PROVIDER_BYTES];

	if (len < NAME_AT || len > RECORD_BYTES || get_le32(record) != MAGIC ||
	    get_le32(record + 4) != (uint32_t)rank ||
	    get_le32(record + NAME_AT - 4) != len - NAME_AT) {
		*rc = fail(SLUICE_EWIRE,
			   "ofi: the record of rank %d has no valid address (%zu bytes)", rank,
			   len);
		return NULL;
	}
	memcpy(provider, record + PROVIDER_AT, sizeof(provider));
	provider[sizeof(provider) - 1] = '\0';
	for (char *c = provider; *c; c++)
		*c = (char)(*c < ' ' || *c > '~' ? '?' : *c);
	if (strcmp(provider, own)) {
		*rc = fail(SLUICE_ENOSUPP,
			   "ofi: rank %d uses provider %s of libfabric, but rank %d uses %s: set "
			   "SLUICE_PROVIDER to one that both have",
			   rank, provider, own_rank, own);
		return NULL;
	}
	if (len - NAME_AT != ofi_fabric_name_bytes(fabric)) {
		*rc = fail(SLUICE_ENOSUPP,
			   "ofi: the address of rank %d has %zu bytes, but the address of rank %d "
			   "has %zu: "
			   "set SLUICE_INTERFACE so that all ranks use the same kind of address",
			   rank, len - NAME_AT, own_rank, ofi_fabric_name_bytes(fabric));
		return NULL;
	}
	/* Two versions of a provider may announce puts with different widths. The two ranks then
	 * use messages. */
	*notice = get_le32(record + NOTICE_AT) == (uint32_t)ofi_fabric_notice(fabric) ?
			  ofi_fabric_notice(fabric) :
			  OFI_NOTICE_MESSAGE;
	return record + NAME_AT;
}
