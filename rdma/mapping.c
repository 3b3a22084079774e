/* SPDX-License-Identifier: BSD-3-Clause
 * Descriptor bytes and checked mappings; see mapping.h. The random nonce in front of the memory
 * detects that a process has ended and its pid and file numbers now belong to another one. */
#include "rdma/mapping.h"
#include "base/bytes.h"
#include "base/error.h"
#include "sluice.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

#ifndef HUGETLBFS_MAGIC
#define HUGETLBFS_MAGIC 0x958458f6
#endif

enum { DESCRIPTOR_MAGIC = 0x47524c53 }; /* "SLRG" */
enum {                                  /* byte offsets; zeros between nonce and CRC */
       AT_MAGIC = 0,
       AT_ACCESS = 4,
       AT_PID = 8,
       AT_FD = 12,
       AT_BYTES = 16,
       AT_NONCE = 24,
       AT_ZERO = 32,
       AT_CRC = 60
};

size_t region_header_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

size_t region_file_bytes(size_t bytes, enum huge huge)
{
	const size_t header = region_header_bytes();
	const size_t page = huge == HUGE_RESERVED ? HUGE_PAGE_BYTES : header;

	if (bytes > (size_t)PTRDIFF_MAX - 2 * page)
		return 0;
	return (header + bytes + page - 1) / page * page;
}

static void encode_descriptor(const struct descriptor *d, uint8_t out[REGION_HEAD_BYTES])
{
	memset(out, 0, REGION_HEAD_BYTES);
	put_le32(out + AT_MAGIC, DESCRIPTOR_MAGIC);
	put_le32(out + AT_ACCESS, d->access);
	put_le32(out + AT_PID, (uint32_t)d->pid);
	put_le32(out + AT_FD, (uint32_t)d->fd);
	put_le64(out + AT_BYTES, d->bytes);
	put_le64(out + AT_NONCE, d->nonce);
	put_le32(out + AT_CRC, crc32c(0, out, AT_CRC));
}

void descriptor_of(const struct region *region, uint8_t out[REGION_HEAD_BYTES])
{
	const struct descriptor d = {
		.pid = getpid(),
		.fd = region->fd,
		.access = region->access,
		.bytes = region->bytes,
		.nonce = region->nonce,
	};

	encode_descriptor(&d, out);
}

int descriptor_decode(const uint8_t bytes[REGION_HEAD_BYTES], int peer, struct descriptor *out)
{
	static const uint8_t zero[AT_CRC - AT_ZERO];
	uint8_t in[REGION_HEAD_BYTES];
	uint32_t access, pid, fd;
	uint64_t size;

	memcpy(in, bytes, sizeof(in)); /* a peer may be able to write the caller's bytes */
	if (get_le32(in + AT_MAGIC) != DESCRIPTOR_MAGIC)
		return fail(SLUICE_EWIRE, "rank %d sent %d bytes that are not a region descriptor",
			    peer, REGION_HEAD_BYTES);
	if (get_le32(in + AT_CRC) != crc32c(0, in, AT_CRC))
		return fail(SLUICE_EWIRE,
			    "rank %d sent a damaged region descriptor (its CRC differs)", peer);
	access = get_le32(in + AT_ACCESS);
	pid = get_le32(in + AT_PID);
	fd = get_le32(in + AT_FD);
	size = get_le64(in + AT_BYTES);
	if (access == 0 || access & ~(uint32_t)(REGION_READ | REGION_WRITE) || pid == 0 ||
	    pid > INT_MAX || fd > INT_MAX || size == 0 || size > SIZE_MAX ||
	    region_file_bytes((size_t)size, HUGE_NONE) == 0 ||
	    memcmp(in + AT_ZERO, zero, sizeof(zero)) != 0)
		return fail(SLUICE_EWIRE,
			    "rank %d sent an impossible region descriptor: access 0x%" PRIx32
			    ", pid %" PRIu32 ", file %" PRIu32 ", %" PRIu64 " bytes",
			    peer, access, pid, fd, size);
	*out = (struct descriptor){
		.pid = (pid_t)pid,
		.fd = (int)fd,
		.access = access,
		.bytes = size,
		.nonce = get_le64(in + AT_NONCE),
	};
	return SLUICE_OK;
}

/* Checks that fd is the described file, and that it cannot shrink under a mapping. */
static int verify_file(int fd, int peer, const struct descriptor *d, enum huge huge)
{
	const size_t file_bytes = region_file_bytes((size_t)d->bytes, huge);
	uint8_t expected[REGION_HEAD_BYTES], found[REGION_HEAD_BYTES];
	int needed = F_SEAL_SHRINK | F_SEAL_GROW;
	struct stat st;
	int seals;

	if (!(d->access & REGION_WRITE))
		needed |= F_SEAL_FUTURE_WRITE;
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & needed) != needed)
		return fail(SLUICE_EPEER,
			    "file %d of rank %d (pid %d) is not a sealed region; its process may "
			    "have ended and its pid been reused",
			    d->fd, peer, (int)d->pid);
	if (fstat(fd, &st) < 0)
		return fail(SLUICE_EDEVICE, "fstat of a region of rank %d: %s", peer,
			    errno_text(errno));
	if ((uint64_t)st.st_size != file_bytes)
		return fail(SLUICE_EPEER,
			    "region of rank %d (pid %d): file %d has %lld bytes instead of %zu, "
			    "which a region of %" PRIu64 " bytes takes",
			    peer, (int)d->pid, d->fd, (long long)st.st_size, file_bytes, d->bytes);
	encode_descriptor(d, expected);
	if (pread(fd, found, sizeof(found), 0) != (ssize_t)sizeof(found) ||
	    memcmp(found, expected, sizeof(found)) != 0)
		return fail(SLUICE_EPEER,
			    "region of rank %d (pid %d): file %d holds another region than the one "
			    "described (its nonce differs); the descriptor is stale or forged",
			    peer, (int)d->pid, d->fd);
	return SLUICE_OK;
}

/* Maps the first bytes of fd where a huge page begins, or anywhere if that is not possible. */
static void *map_aligned(int fd, size_t bytes, int protection)
{
	const size_t span = bytes + HUGE_PAGE_BYTES;
	uint8_t *room = span > bytes ? mmap(NULL, span, PROT_NONE,
					    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) :
				       MAP_FAILED;
	uint8_t *at;
	size_t before;

	if (room == MAP_FAILED)
		return mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
	before = (HUGE_PAGE_BYTES - (uintptr_t)room % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
	at = room + before;
	if (mmap(at, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		munmap(room, span);
		return MAP_FAILED;
	}
	if (before)
		munmap(room, before);
	munmap(at + bytes, span - before - bytes);
	return at;
}

int mapping_make(int fd, size_t bytes, int protection, enum huge huge, struct mapping *out)
{
	const size_t header = region_header_bytes();
	const size_t file_bytes = region_file_bytes(bytes, huge);
	struct mapping m = { .bytes = huge == HUGE_NONE ? bytes : file_bytes };

	m.start = huge == HUGE_TRANSPARENT ? map_aligned(fd, m.bytes, protection) :
					     mmap(NULL, m.bytes, protection, MAP_SHARED, fd,
						  huge == HUGE_NONE ? (off_t)header : 0);
	if (m.start == MAP_FAILED)
		return -1;
	m.base = (uint8_t *)m.start + (huge == HUGE_NONE ? 0 : header);
	*out = m;
	return 0;
}

int mapping_open(int fd, int peer, const struct descriptor *d, struct mapping *out)
{
	const int protection = PROT_READ | (d->access & REGION_WRITE ? PROT_WRITE : 0);
	struct statfs system;
	enum huge huge = huge_kind((size_t)d->bytes);
	int rc, err;

	/* The file shows whether its owner used reserved pages. */
	if (!fstatfs(fd, &system) && system.f_type == HUGETLBFS_MAGIC)
		huge = HUGE_RESERVED;
	else if (huge == HUGE_RESERVED)
		huge = HUGE_NONE;
	rc = verify_file(fd, peer, d, huge);
	if (rc)
		return rc;
	if (mapping_make(fd, (size_t)d->bytes, protection, huge, out)) {
		err = errno;
		return fail(err == ENOMEM ? SLUICE_ENOMEM : SLUICE_EDEVICE,
			    "cannot map %" PRIu64 " bytes of rank %d (pid %d): %s%s", d->bytes,
			    peer, (int)d->pid, errno_text(err),
			    err == ENOMEM ? "; raise the limit on address space (ulimit -v)" : "");
	}
	if (madvise(out->start, out->bytes, MADV_DONTFORK) < 0) {
		err = errno;
		mapping_close(out);
		return fail(SLUICE_EDEVICE, "madvise(MADV_DONTFORK) on a region of rank %d: %s",
			    peer, errno_text(err));
	}
	return SLUICE_OK;
}

void mapping_close(struct mapping *mapping)
{
	munmap(mapping->start, mapping->bytes);
	*mapping = (struct mapping){ 0 };
}
