/* SPDX-License-Identifier: BSD-3-Clause
 * SLUICE_KEY_FILE: ranks that hold the same key join. A rank with another key or without one is
 * refused by name, also one that has read the whole store and takes a rank's place there, and a
 * record that was changed in the store. No key is in the store. Each rank is a process. */
#include "base/bytes.h"
#include "base/log.h"
#include "compress/message.h"
#include "sluice.h"
#include "thinned.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

/* The functions must have the parameters of the functions that they replace. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { RANKS = 3, ROUNDS = 2, VALUE_BYTES = 4096, TEXT_BYTES = 1024, KEY_BYTES = 32 };
enum { STRANGER = 65534 };

/* Memory that the ranks share. */
static struct shared {
	struct {
		atomic_int put;
		size_t bytes;
		uint8_t value[VALUE_BYTES];
	} slots[ROUNDS][RANKS];
	int copies; /* number of copies of the key in the memory of rank 0 after joining */
	int spoilt; /* the rank whose record is changed in the store; -1: none */
	char spoilt_entry[8];
	char said[RANKS][TEXT_BYTES];
	int codes[RANKS];
} * shared;

static char folder[] = "/tmp/sluice-key.XXXXXX";

static const char *at(const char *name)
{
	static char paths[4][64];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static void write_key(const char *name, int filling, size_t bytes, mode_t mode)
{
	int file = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	uint8_t byte = (uint8_t)filling;

	assert_true(file >= 0);
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(write(file, &byte, 1), 1);
	assert_int_equal(fchmod(file, mode), 0);
	close(file);
}

/* ---- the store ------------------------------------------------------------- */

static int slot_of(const char *key, int *rank)
{
	*rank = atoi(strrchr(key, '.') + 1);
	return strstr(key, "card2") != NULL;
}

/* Changes an entry of the record (the process id in the address of the transport self), and
 * corrects all checksums. */
static void spoil(uint8_t *value, size_t bytes)
{
	size_t record = bytes - 8; /* the size of the job and a checksum follow */
	uint8_t *entry = memmem(value, record, shared->spoilt_entry, 8);

	assert_non_null(entry);
	entry[16] ^= 1;
	put_le32(value + record - 4, crc32c(0, value, record - 4));
	put_le32(value + bytes - 4, crc32c(0, value, bytes - 4));
}

static int put(void *context, const char *key, const void *value, size_t bytes)
{
	int rank, round = slot_of(key, &rank);

	memcpy(shared->slots[round][rank].value, value, bytes);
	shared->slots[round][rank].bytes = bytes;
	if (rank == shared->spoilt)
		spoil(shared->slots[round][rank].value, bytes);
	atomic_store(&shared->slots[round][rank].put, 1);
	return 0;
}

static int get(void *context, const char *key, void *value, size_t room, size_t *bytes_out,
	       int timeout_ms)
{
	const struct timespec pause = { .tv_nsec = 2000000 };
	int rank, round = slot_of(key, &rank);

	for (int waited = 0; !atomic_load(&shared->slots[round][rank].put); waited += 2) {
		if (waited >= timeout_ms)
			return SLUICE_ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	*bytes_out = shared->slots[round][rank].bytes;
	memcpy(value, shared->slots[round][rank].value, *bytes_out);
	return 0;
}

/* ---- the ranks ------------------------------------------------------------- */

static void swallow(int level, const char *line, void *context)
{
}

static int setup(void **state)
{
	log_set_sink(swallow, NULL);
	strcpy(strrchr(folder, '.') + 1, "XXXXXX");
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED || !mkdtemp(folder))
		return -1;
	shared->spoilt = -1;
	strcpy(shared->spoilt_entry, "self");
	write_key("key", 'k', KEY_BYTES, 0600);
	write_key("other", 'o', KEY_BYTES, 0600);
	return 0;
}

static int teardown(void **state)
{
	static const char *const names[] = { "key", "other", "link", "fifo", "directory" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		remove(at(names[i]));
	munmap(shared, sizeof(*shared));
	return rmdir(folder);
}

/* Counts how often writable memory of this process has the 32 bytes of "key". */
static int copies_of_key(void)
{
	enum { CHUNK = 1 << 20, MOST = 4 << 20 };
	FILE *maps = fopen("/proc/self/maps", "re");
	int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC), found = 0;
	uint8_t *chunk = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			      0); /* shared, so that it is a separate mapping */
	char line[512];

	assert_true(maps && memory >= 0 && chunk != MAP_FAILED);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long begin, end;
		int run = 0;

		if (sscanf(line, "%lx-%lx rw", &begin, &end) != 2 || !strstr(line, " rw") ||
		    end - begin > MOST || begin == (unsigned long)(uintptr_t)chunk)
			continue;
		for (unsigned long from = begin; from < end; from += CHUNK) {
			size_t n = end - from < CHUNK ? end - from : CHUNK;
			ssize_t got = pread(memory, chunk, n, (off_t)from);

			for (ssize_t i = 0; i < got; i++) {
				run = chunk[i] == 'k' ? run + 1 : 0;
				found += run == KEY_BYTES;
			}
		}
	}
	fclose(maps);
	close(memory);
	munmap(chunk, CHUNK);
	return found;
}

static int rank_main(int rank, const char *key)
{
	const sluice_bootstrap bootstrap = { .size = sizeof(bootstrap),
					     .rank = rank,
					     .ranks = RANKS,
					     .node = "n",
					     .put = put,
					     .get = get };
	const sluice_job_attr attr = { .size = sizeof(attr), .bootstrap = &bootstrap };
	sluice_job *job = NULL;
	double sum = rank;
	int rc;

	unsetenv("SLUICE_KEY_FILE");
	if (key)
		setenv("SLUICE_KEY_FILE", at(key), 1);
	rc = sluice_init(&attr, &job);
	if (!rc)
		rc = sluice_sum(job, &sum, 1);
	if (!rc && sum != 0 + 1 + 2)
		rc = -1000;
	if (!rc && rank == 0)
		shared->copies = copies_of_key();
	shared->codes[rank] = rc;
	snprintf(shared->said[rank], TEXT_BYTES, "%s", rc ? sluice_last_error() : "");
	sluice_finalize(&job);
	return 0;
}

/* Starts all ranks. Rank 1 has another key file than the rest; NULL: no key file. */
static void run(const char *key, const char *of_rank_1)
{
	pid_t pids[RANKS];
	int status;

	memset(shared->slots, 0, sizeof(shared->slots));
	for (int r = 0; r < RANKS; r++) {
		pids[r] = fork();
		if (!pids[r])
			_exit(rank_main(r, r == 1 ? of_rank_1 : key));
	}
	for (int r = 0; r < RANKS; r++) {
		assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
		assert_int_equal(status, 0);
	}
}

static void all_join(void)
{
	assert_int_equal(shared->copies, 0);
	for (int r = 0; r < RANKS; r++) {
		assert_string_equal(shared->said[r], "");
		assert_int_equal(shared->codes[r], 0);
	}
}

/* why: the messages of ranks 0 and 2. */
static void refused(const char *why, const char *rank_1_says)
{
	for (int r = 0; r < RANKS; r++) {
		const char *expected = r == 1 ? rank_1_says : why;

		if (!strstr(shared->said[r], expected))
			fail_msg("rank %d said: %s", r, shared->said[r]);
		assert_int_not_equal(shared->codes[r], 0);
	}
}

static void join__same_key__over_every_transport(void **state)
{
	char *copy = malloc(KEY_BYTES);
	static const char *const transports[] = {
		"self,shm",
#ifdef HAVE_LIBFABRIC
		"self,ofi",
#endif
	};

	memset(copy, 'k', KEY_BYTES);
	assert_int_not_equal(copies_of_key(), 0); /* the function finds an existing key */
	explicit_bzero(copy, KEY_BYTES);
	free(copy);
	for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
		setenv("SLUICE_TRANSPORT", transports[i], 1);
		setenv("SLUICE_INTERFACE", "lo", 1);
		run("key", "key");
		if (strstr(shared->said[0], "transport ofi: "))
			print_message("not over ofi: %s\n", shared->said[0]);
		else
			all_join();
	}
	unsetenv("SLUICE_TRANSPORT");
	unsetenv("SLUICE_INTERFACE");
	run("key", "key");
	all_join();
}

/* The rank has read the whole store. */
static void join__rank_without_the_key__is_refused_by_name(void **state)
{
	run("key", NULL);
	refused("rank 1 (node n) has no key, but rank ",
		"rank 0 (node n) has a key, but rank 1 (node n) has none: set SLUICE_KEY_FILE on "
		"all ranks");
	run(NULL, "key");
	refused("rank 1 (node n) has a key, but rank ", "rank 0 (node n) has no key, but rank 1");
}

static void join__another_key__is_refused_by_name(void **state)
{
	run("key", "other");
	refused("rank 1 (node n) holds another key than rank ",
		"rank 0 (node n) holds another key than rank 1 (node n), or its record was changed "
		"on "
		"the way");
}

static void join__card_changed_in_the_store__is_refused(void **state)
{
	shared->spoilt = 1;
	run("key", "key");
	for (int r = 0; r < RANKS; r += 2) {
		assert_int_equal(shared->codes[r], SLUICE_EPEER);
		assert_non_null(
			strstr(shared->said[r], "rank 1 (node n) holds another key than rank "));
	}
}

#ifdef HAVE_LIBFABRIC
/* The rank itself detects that the store does not have what it sent. */
static void join__public_key_changed_in_the_store__is_refused(void **state)
{
	shared->spoilt = 1;
	memcpy(shared->spoilt_entry, "ecdh256", 8);
	setenv("SLUICE_TRANSPORT", "self,ofi", 1);
	setenv("SLUICE_INTERFACE", "lo", 1);
	run(NULL, NULL);
	unsetenv("SLUICE_TRANSPORT");
	unsetenv("SLUICE_INTERFACE");
	if (strstr(shared->said[0], "transport ofi: ")) {
		print_message("not over ofi: %s\n", shared->said[0]);
		skip();
	}
	for (int r = 0; r < RANKS; r++) {
		const char *says = r == 1 ?
					   "two processes of the job have rank 1" :
					   "the key shared with rank 1 (node n): its public key is "
					   "not a point of the curve P-256";

		assert_int_equal(shared->codes[r], r == 1 ? SLUICE_EPEER : SLUICE_EWIRE);
		assert_non_null(strstr(shared->said[r], says));
	}
}
#endif

static void join__unfit_file__is_refused_on_all_ranks(void **state)
{
	static const struct {
		const char *name, *because;
	} unfit[] = { { "nothing", "cannot be opened: ENOENT (" },
		      { "link", "is a symbolic link" },
		      { "fifo", "is not a regular file" },
		      { "directory", "is not a regular file" },
		      { "short", "has 31 bytes" },
		      { "long", "has more than 4096 bytes" },
		      { "readable", "can be read or written by others (mode 0640)" },
		      { "strangers", "belongs to user 65534" } };

	assert_int_equal(symlink(at("key"), at("link")), 0);
	assert_int_equal(mkfifo(at("fifo"), 0600), 0);
	assert_int_equal(mkdir(at("directory"), 0700), 0);
	write_key("short", 's', KEY_BYTES - 1, 0600);
	write_key("long", 'l', 4097, 0600);
	write_key("readable", 'r', KEY_BYTES, 0640);
	write_key("strangers", 's', KEY_BYTES, 0600);
	for (size_t i = 0; i < sizeof(unfit) / sizeof(unfit[0]); i++) {
		char why[128];

		if (thinned(i, 4))
			continue;
		if (!strcmp(unfit[i].name, "strangers") &&
		    chown(at("strangers"), STRANGER, STRANGER))
			continue; /* only root can make a file of another user */
		snprintf(why, sizeof(why), "SLUICE_KEY_FILE=%s %s", at(unfit[i].name),
			 unfit[i].because);
		run("key", unfit[i].name);
		refused(why, why);
		assert_non_null(strstr(shared->said[0], "rank 1 (node n) cannot take part: "));
	}
	remove(at("short"));
	remove(at("long"));
	remove(at("readable"));
	remove(at("strangers"));
}

static void join__build_without_crypto__refuses_the_variable(void **state)
{
	static const char why[] = "this libsluice was built without a crypto library, which "
				  "SLUICE_KEY_FILE needs";

	run("key", "key");
	refused(why, why);
}

#if defined(HAVE_VERBS) || defined(HAVE_LIBFABRIC)
enum { CRYPTO = 1 };
#else
enum { CRYPTO = 0 };
#endif

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(join__same_key__over_every_transport),
		CASE(join__rank_without_the_key__is_refused_by_name),
		CASE(join__another_key__is_refused_by_name),
		CASE(join__card_changed_in_the_store__is_refused),
#ifdef HAVE_LIBFABRIC
		CASE(join__public_key_changed_in_the_store__is_refused),
#endif
		CASE(join__unfit_file__is_refused_on_all_ranks),
	};
	const struct CMUnitTest without[] = {
		CASE(join__build_without_crypto__refuses_the_variable),
	};

	return CRYPTO ? cmocka_run_group_tests(tests, NULL, NULL) :
			cmocka_run_group_tests(without, NULL, NULL);
}
