/* SPDX-License-Identifier: BSD-3-Clause
 * See key_file.h. All keys and proofs are HMAC-SHA256, with a label that keeps them apart. */
#include "job/key_file.h"
#include "base/bytes.h"
#include "base/error.h"
#include "slurm/bootstrap.h"
#include "sluice.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEAST_BYTES = 32, MOST_BYTES = 4096 };
enum { LABEL_RECORD = 1, LABEL_PAIR };

struct key_file {
	uint8_t key[AUTH_KEY_BYTES]; /* derived from the file's bytes */
};

static int refuse_file(const char *path, const char *why)
{
	return fail(SLUICE_EINVAL,
		    "SLUICE_KEY_FILE=%s %s: name a regular file of this user or of root, with mode "
		    "0600 and %d to %d random bytes, which is the same on all ranks",
		    path, why, LEAST_BYTES, MOST_BYTES);
}

/* Refuses a file that other users can read, or that they could have made. */
static int check_file(int fd, const char *path)
{
	struct stat status;
	char why[96];

	if (fstat(fd, &status))
		return fail(SLUICE_EIO, "SLUICE_KEY_FILE=%s cannot be examined: %s", path,
			    errno_text(errno));
	if (!S_ISREG(status.st_mode))
		return refuse_file(path, "is not a regular file");
	if (status.st_uid != 0 && status.st_uid != geteuid()) {
		snprintf(why, sizeof(why), "belongs to user %u", (unsigned)status.st_uid);
		return refuse_file(path, why);
	}
	if (status.st_mode & 077) {
		snprintf(why, sizeof(why), "can be read or written by others (mode %04o)",
			 (unsigned)status.st_mode & 07777);
		return refuse_file(path, why);
	}
	return 0;
}

static int read_key(int fd, const char *path, uint8_t bytes[MOST_BYTES + 1], size_t *n_out)
{
	char why[64];
	size_t n = 0;

	while (n <= MOST_BYTES) {
		ssize_t got = read(fd, bytes + n, MOST_BYTES + 1 - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fail(SLUICE_EIO, "SLUICE_KEY_FILE=%s cannot be read: %s", path,
				    errno_text(errno));
		if (!got)
			break;
		n += (size_t)got;
	}
	*n_out = n;
	if (n >= LEAST_BYTES && n <= MOST_BYTES)
		return 0;
	if (n < LEAST_BYTES)
		snprintf(why, sizeof(why), "has %zu bytes", n);
	else
		snprintf(why, sizeof(why), "has more than %d bytes", MOST_BYTES);
	return refuse_file(path, why);
}

int key_file_open(const char *path, struct key_file **out)
{
	static const uint8_t label[AUTH_KEY_BYTES] = "Sluice: a file with a key";
	uint8_t bytes[MOST_BYTES + 1];
	size_t n = 0;
	int fd, rc;

	*out = NULL;
	if (!*path)
		return 0;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 && errno == ELOOP)
		return refuse_file(path, "is a symbolic link");
	if (fd < 0)
		return fail(SLUICE_EIO, "SLUICE_KEY_FILE=%s cannot be opened: %s", path,
			    errno_text(errno));
	rc = check_file(fd, path);
	if (!rc)
		rc = read_key(fd, path, bytes, &n);
	close(fd);
	if (!rc) {
		*out = calloc(1, sizeof(**out));
		rc = *out ? auth_hmac(label, bytes, n, (*out)->key) :
			    fail(SLUICE_ENOMEM, "no memory for the key of SLUICE_KEY_FILE");
	}
	explicit_bzero(bytes, sizeof(bytes));
	if (rc)
		key_file_close(out);
	return rc;
}

void key_file_close(struct key_file **k)
{
	if (*k)
		explicit_bzero(*k, sizeof(**k));
	free(*k);
	*k = NULL;
}

int key_file_prove(const struct key_file *k, const struct key_context *context,
		   const uint8_t *payload, size_t n, uint8_t proof[KEY_PROOF_BYTES])
{
	enum { HEAD_BYTES = 16 };
	uint8_t bytes[HEAD_BYTES + RECORD_PAYLOAD_BYTES];
	int rc;

	if (n > RECORD_PAYLOAD_BYTES)
		return fail(SLUICE_EINVAL,
			    "a record of %zu bytes is too long for a proof: at most %d bytes fit",
			    n, RECORD_PAYLOAD_BYTES);
	put_le32(bytes, LABEL_RECORD);
	put_le32(bytes + 4, context->rank);
	put_le32(bytes + 8, context->size);
	put_le32(bytes + 12, context->round);
	memcpy(bytes + HEAD_BYTES, payload, n);
	rc = auth_hmac(k->key, bytes, HEAD_BYTES + n, proof);
	return rc;
}

int key_file_check(const struct key_file *k, const struct key_context *context,
		   const uint8_t *payload, size_t n, const uint8_t proof[KEY_PROOF_BYTES])
{
	uint8_t expected[KEY_PROOF_BYTES];

	return !key_file_prove(k, context, payload, n, expected) &&
	       auth_equal(proof, expected, sizeof(expected));
}

int key_file_mix(const struct key_file *k, uint8_t key[AUTH_KEY_BYTES])
{
	uint8_t bytes[4 + AUTH_KEY_BYTES];
	int rc;

	put_le32(bytes, LABEL_PAIR);
	memcpy(bytes + 4, key, AUTH_KEY_BYTES);
	rc = auth_hmac(k->key, bytes, sizeof(bytes), key);
	explicit_bzero(bytes, sizeof(bytes));
	return rc;
}
