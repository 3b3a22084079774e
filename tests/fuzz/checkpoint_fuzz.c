/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzz target for checkpoints on disk: a rank's file, read for a small model, and LATEST. Input:
 * one byte of options, one byte that says where a file changes while it is read, then the file. A
 * refused file must change nothing; an accepted one is written again and must give the same bytes.
 * The input is in memory files, the second copy in a private folder. */
#include "fuzz.h"
#include "base/bytes.h"
#include "checkpoint/checkpoint_folder.h"
#include "tests/unit/reseal.h"
#include "tests/unit/scratch.h"
#include <sys/mman.h>

/* Options. Checksums, the file's length in its header, and the entry for the file in LATEST are
 * corrected unless the fuzzer sets these. */
enum {
	LEAVE_CRC = 1,
	LEAVE_LENGTH = 2,
	LEAVE_SUM = 4,
	SPOIL_BYTE = 8, /* between the reads that check and that store */
	CUT_SHORT = 16, /* the same */
	MANIFEST = 128
};

enum { COUNT = 5, SPAN = 3, SECTIONS = 6 };

struct state {
	float residual[COUNT], velocity[COUNT], parameters[SPAN], shard_residual[SPAN];
	uint64_t worker, shard;
};

static const struct checkpoint_identity identity = { .rank = 1,
						     .size = 4,
						     .workers = 4,
						     .shards = 4,
						     .count = COUNT,
						     .step = 1000,
						     .schema = 0x0123456789abcdefu,
						     .generation = 0x5be1f00d,
						     .recipe = "up=topk(0.5)" };

static void sections_of(struct state *s, struct checkpoint_section out[SECTIONS])
{
	const struct checkpoint_section all[SECTIONS] = {
		{ SECTION_WORKER, 0, 1, NULL, &s->worker },
		{ SECTION_WORKER_RESIDUAL, 0, COUNT, s->residual, NULL },
		{ SECTION_WORKER_VELOCITY, 0, COUNT, s->velocity, NULL },
		{ SECTION_SHARD, 2, 1, NULL, &s->shard },
		{ SECTION_SHARD_PARAMETERS, 2, SPAN, s->parameters, NULL },
		{ SECTION_SHARD_RESIDUAL, 2, SPAN, s->shard_residual, NULL },
	};

	memcpy(out, all, sizeof(all));
}

/* ---- files ----------------------------------------------------------------- */

static struct {
	char dir[SCRATCH_PATH];       /* contains LATEST, a link to manifest_fd */
	char again[SCRATCH_PATH + 8]; /* accepted content is written here */
	char path[64];                /* of file_fd */
	int file_fd, manifest_fd;
} files;

static void remove_files(void)
{
	scratch_remove(files.dir);
}

static int memory_file(char path[64])
{
	int fd = memfd_create("checkpoint_fuzz", MFD_CLOEXEC);

	require(fd >= 0, "no memory file");
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return fd;
}

static void open_files(void)
{
	char target[64], link[SCRATCH_PATH + 8];

	if (files.dir[0])
		return;
	require(!scratch_make(files.dir), "no temporary folder");
	atexit(remove_files);
	snprintf(files.again, sizeof(files.again), "%s/again", files.dir);
	snprintf(link, sizeof(link), "%s/LATEST", files.dir);
	files.file_fd = memory_file(files.path);
	files.manifest_fd = memory_file(target);
	require(!symlink(target, link) && !mkdir(files.again, 0700), "no link or folder");
}

static void fill(int fd, const void *bytes, size_t n)
{
	require(!ftruncate(fd, 0) && pwrite(fd, bytes, n, 0) == (ssize_t)n, "no memory in a file");
}

/* Checks that the file that the library wrote has these bytes. */
static void expect_file(const char *name, const uint8_t *bytes, size_t n)
{
	static uint8_t found[SCRATCH_FILE];
	char path[SCRATCH_PATH + 32];
	long length;

	snprintf(path, sizeof(path), "%s/%s", files.again, name);
	length = scratch_read(path, found);
	require(length >= 0 && (size_t)length == n && !memcmp(found, bytes, n),
		"what was accepted is written differently");
}

/* ---- a rank's file --------------------------------------------------------- */

static struct checkpoint_sum fix(uint8_t *bytes, size_t n, unsigned options)
{
	struct checkpoint_sum sum = { 332, 0x12345678 };

	if (!(options & LEAVE_LENGTH) && n >= CHECKPOINT_HEADER_BYTES)
		put_le64(bytes + 56, n);
	if (!(options & LEAVE_SUM)) {
		sum.bytes = n;
		sum.crc = n >= 4 ? get_le32(bytes + n - 4) : 0;
	}
	if (!(options & LEAVE_CRC)) {
		uint32_t crc = reseal(bytes, n);

		if (!(options & LEAVE_SUM))
			sum.crc = crc;
	}
	return sum;
}

/* Checks values[] only, because the caller checks numbers[]. */
static void expect_untouched(const struct state *s, const char *what)
{
	uint8_t untouched[offsetof(struct state, worker)];

	memset(untouched, 0xa5, sizeof(untouched));
	require(!memcmp(s, untouched, sizeof(untouched)), what);
}

static void change(size_t n, unsigned options, unsigned where, const uint8_t *bytes)
{
	size_t at = n * where / 256;

	if (options & CUT_SHORT) {
		require(!ftruncate(files.file_fd, (off_t)at), "ftruncate");
	} else {
		uint8_t spoilt = (uint8_t)(bytes[at] ^ 0x10);

		require(pwrite(files.file_fd, &spoilt, 1, (off_t)at) == 1, "pwrite");
	}
}

static void write_again(struct state *s, const struct checkpoint_sum *sum, const uint8_t *bytes)
{
	struct checkpoint_section sections[SECTIONS];
	struct checkpoint_sum sum_again;
	char path[SCRATCH_PATH + 32];

	sections_of(s, sections);
	snprintf(path, sizeof(path), "%s/rank", files.again);
	require(!checkpoint_file_write(path, &identity, sections, SECTIONS, &sum_again),
		"what was accepted cannot be written");
	require(sum_again.bytes == sum->bytes && sum_again.crc == sum->crc, "the sum changed");
	expect_file("rank", bytes, (size_t)sum->bytes);
}

/* Reads the same content from memory, with nothing readable after its end. A good file has good
 * bytes; bytes can be good although LATEST names another file. */
static void fuzz_bytes(const uint8_t *bytes, size_t n, int file_is_good)
{
	struct checkpoint_section sections[SECTIONS];
	struct checkpoint_file *file = NULL;
	struct state state;
	uint8_t *copy = malloc(n ? n : 1);
	uint64_t step;
	uint32_t generation;

	require(copy != NULL, "no memory");
	if (n)
		memcpy(copy, bytes, n);
	memset(&state, 0xa5, sizeof(state));
	sections_of(&state, sections);
	begin();
	int rc = checkpoint_bytes_peek(copy, n, &step, &generation);
	if (!rc)
		rc = checkpoint_bytes_open(copy, n, &identity, sections, SECTIONS, &file);
	expect_untouched(&state, "values were stored before all bytes were judged");
	require(!rc || !file_is_good, "the file is good, and its bytes are not");
	if (rc)
		expect_refusal(rc, SLUICE_EWIRE, SLUICE_EINVAL);
	else
		require(!checkpoint_file_load(file), "judged good, then refused");
	checkpoint_file_close(&file);
	free(copy);
}

static void fuzz_file(uint8_t *bytes, size_t n, unsigned options, unsigned where)
{
	struct checkpoint_section sections[SECTIONS];
	struct checkpoint_file *file = NULL;
	struct checkpoint_sum sum = fix(bytes, n, options);
	struct state state;
	int rc;

	memset(&state, 0xa5, sizeof(state));
	sections_of(&state, sections);
	fill(files.file_fd, bytes, n);
	begin();
	rc = checkpoint_file_open(files.path, &identity, sections, SECTIONS, &sum, &file);
	expect_untouched(&state, "values were stored before the whole file was judged");
	if (rc) {
		expect_refusal(rc, SLUICE_EWIRE, SLUICE_EINVAL);
		require(!file, "refused, but opened");
		fuzz_bytes(bytes, n, 0);
		return;
	}
	fuzz_bytes(bytes, n, 1);
	if (options & (SPOIL_BYTE | CUT_SHORT)) {
		change(n, options, where, bytes);
		begin();
		expect_refusal(checkpoint_file_load(file), SLUICE_EWIRE, SLUICE_EINVAL);
	} else {
		require(!checkpoint_file_load(file), "judged good, then refused");
		write_again(&state, &sum, bytes);
	}
	checkpoint_file_close(&file);
	require(!file, "closed, but not forgotten");
}

/* ---- LATEST ---------------------------------------------------------------- */

static void fuzz_manifest(uint8_t *text, size_t n, unsigned options)
{
	enum { LAST_LINE = 16 }; /* "crc32c 12345678\n" */
	struct checkpoint_manifest manifest, untouched;
	int rc;

	if (!(options & LEAVE_CRC) && n >= LAST_LINE) {
		char line[LAST_LINE + 1];

		snprintf(line, sizeof(line), "crc32c %08x\n", crc32c(0, text, n - LAST_LINE));
		memcpy(text + n - LAST_LINE, line, LAST_LINE);
	}
	fill(files.manifest_fd, text, n);
	memset(&untouched, 0xa5, sizeof(untouched));
	memcpy(&manifest, &untouched, sizeof(manifest));
	begin();
	rc = checkpoint_manifest_read(files.dir, &manifest);
	if (rc) {
		expect_refusal(rc, SLUICE_EWIRE, SLUICE_EWIRE);
		require(!memcmp(&manifest, &untouched, sizeof(manifest)), "refused, but stored");
		return;
	}
	require(!checkpoint_manifest_write(files.again, &manifest, NULL, NULL),
		"the manifest that was accepted cannot be written");
	expect_file("LATEST", text, n);
	free(manifest.sums);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes;

	if (size < 2)
		return 0;
	open_files();
	bytes = get_memory(size - 2);
	if (size > 2)
		memcpy(bytes, data + 2, size - 2);
	if (data[0] & MANIFEST)
		fuzz_manifest(bytes, size - 2, data[0]);
	else
		fuzz_file(bytes, size - 2, data[0], data[1]);
	free(bytes);
	return 0;
}
