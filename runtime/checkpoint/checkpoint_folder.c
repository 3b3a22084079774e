/* SPDX-License-Identifier: BSD-3-Clause
 * Generations and LATEST. The manifest's text is canonical: it is valid only if printing the parsed
 * manifest gives the same bytes, so nothing in it can be ignored. */
#include "checkpoint/checkpoint_folder.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "sluice.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	NAME_BYTES = 48,  /* "step-" 20 digits "-" 8 digits */
	DRAFT_BYTES = 16, /* "." 8 digits */
	LINE_BYTES_MAX = 96,
	RANKS_MAX = 1 << 16
};

static void generation_name(uint64_t step, uint32_t generation, char name[NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "step-%012" PRIu64 "-%08" PRIx32, step, generation);
}

/* Returns 1 if generation_name() made this name. Sluice owns no other entries of DIR. */
static int is_generation(const char *name, uint64_t *step_out, uint32_t *generation_out)
{
	char again[NAME_BYTES];
	if (sscanf(name, "step-%20" SCNu64 "-%8" SCNx32, step_out, generation_out) != 2)
		return 0;
	generation_name(*step_out, *generation_out, again);
	return !strcmp(name, again);
}

static int is_rank_file(const char *name)
{
	char again[NAME_BYTES], partial[NAME_BYTES + 4];
	uint32_t rank;
	if (sscanf(name, "rank-%10" SCNu32, &rank) != 1)
		return 0;
	snprintf(again, sizeof again, "rank-%05" PRIu32, rank);
	snprintf(partial, sizeof partial, "%s.tmp", again);
	return !strcmp(name, again) || !strcmp(name, partial);
}

static void folder_path(const struct checkpoint_place *place, char path[DURABLE_PATH_BYTES])
{
	char name[NAME_BYTES];
	generation_name(place->step, place->generation, name);
	snprintf(path, DURABLE_PATH_BYTES, "%.*s/%s", CHECKPOINT_DIR_BYTES, place->dir, name);
}

void checkpoint_path(const struct checkpoint_place *place, uint32_t rank,
		     char path[DURABLE_PATH_BYTES])
{
	char name[NAME_BYTES];
	generation_name(place->step, place->generation, name);
	snprintf(path, DURABLE_PATH_BYTES, "%.*s/%s/rank-%05" PRIu32, CHECKPOINT_DIR_BYTES,
		 place->dir, name, rank);
}

/* ---- directories --------------------------------------------------------------- */

/* Creates one directory of a path. A new directory survives a crash only once its parent is
 * synchronised. */
static int make_folder(const char *path)
{
	if (!mkdir(path, 0777)) {
		char parent[DURABLE_PATH_BYTES + 4];
		snprintf(parent, sizeof parent, "%s/..", path);
		return durable_sync_folder(parent);
	}
	struct stat st;
	int err = errno;
	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		return 0;
	errno = err == EEXIST ? ENOTDIR : err;
	return durable_failed("mkdir", path);
}

static int make_folders(const char *dir)
{
	char path[DURABLE_PATH_BYTES];
	snprintf(path, sizeof path, "%s", dir);
	for (char *at = path + 1; *at; at++) {
		if (*at != '/' || at[-1] == '/')
			continue;
		*at = '\0';
		int rc = make_folder(path);
		if (rc)
			return rc;
		*at = '/';
	}
	return make_folder(path);
}

int checkpoint_dir(const char *dir, int make, char absolute[CHECKPOINT_DIR_BYTES])
{
	if (!dir || !*dir)
		return fail(SLUICE_EINVAL, "the directory of the checkpoint is %s",
			    dir ? "an empty text" : "NULL");
	size_t n = strlen(dir);
	char *found = NULL;
	int rc = 0;
	if (n < CHECKPOINT_DIR_BYTES) {
		rc = make ? make_folders(dir) : 0;
		found = rc ? NULL : realpath(dir, NULL);
		if (!rc && !found)
			rc = !make && errno == ENOENT ?
				     fail(SLUICE_EIO,
					  "no checkpoint in %s: there is no such directory", dir) :
				     durable_failed("realpath", dir);
		n = found ? strlen(found) : 0;
	}
	if (!rc && n >= CHECKPOINT_DIR_BYTES)
		rc = fail(SLUICE_EINVAL,
			  "the path of the checkpoint directory %.64s... is %zu bytes long, but "
			  "the limit is %d: choose a shorter one",
			  dir, n, CHECKPOINT_DIR_BYTES - 1);
	if (!rc)
		memcpy(absolute, found, n + 1);
	free(found);
	return rc;
}

int checkpoint_lock(const char *dir, int *lock_out)
{
	*lock_out = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*lock_out < 0 || !flock(*lock_out, LOCK_EX | LOCK_NB))
		return 0;
	const int taken = errno == EWOULDBLOCK;
	close(*lock_out);
	*lock_out = -1;
	return taken ? fail(SLUICE_EIO,
			    "another job saves a checkpoint in %s at this moment: give each job "
			    "and each model its own directory",
			    dir) :
		       0;
}

void checkpoint_unlock(int *lock)
{
	if (*lock < 0)
		return;
	flock(*lock, LOCK_UN); /* a forked child that has the descriptor would keep the lock */
	close(*lock);
	*lock = -1;
}

int checkpoint_begin(struct checkpoint_place *place)
{
	enum { TRIES = 8 };
	char path[DURABLE_PATH_BYTES];
	for (int i = 0; i < TRIES; i++) {
		if (getrandom(&place->generation, sizeof place->generation, 0) !=
		    (ssize_t)sizeof place->generation)
			return durable_failed("getrandom for a directory", place->dir);
		folder_path(place, path);
		if (!mkdir(path, 0777)) {
			int rc = durable_sync_folder(place->dir);
			if (rc)
				rmdir(path);
			return rc;
		}
		if (errno != EEXIST)
			break;
	}
	return durable_failed("mkdir", path);
}

/* ---- LATEST ---------------------------------------------------------------- */

static int latest_path(const char *dir, char path[DURABLE_PATH_BYTES])
{
	int n = snprintf(path, DURABLE_PATH_BYTES, "%s/LATEST", dir);
	return n > 0 && n < DURABLE_PATH_BYTES ?
		       0 :
		       fail(SLUICE_EINVAL,
			    "the path of the checkpoint directory %.64s... is too long", dir);
}

/* Prints the whole text into memory from malloc(). Returns NULL if there is no memory. */
static char *print_manifest(const struct checkpoint_manifest *m, size_t *bytes_out)
{
	size_t cap = ((size_t)m->ranks + 8) * LINE_BYTES_MAX, n;
	char name[NAME_BYTES], *text = malloc(cap);
	if (!text)
		return NULL;
	generation_name(m->step, m->generation, name);
	n = (size_t)snprintf(
		text, cap, "sluice checkpoint %d\nfolder %s\nstep %" PRIu64 "\nranks %" PRIu32 "\n",
		CHECKPOINT_VERSION, name, m->step, m->ranks);
	for (uint32_t r = 0; r < m->ranks; r++)
		n += (size_t)snprintf(text + n, cap - n,
				      "rank %" PRIu32 " bytes %" PRIu64 " crc32c %08" PRIx32 "\n",
				      r, m->sums[r].bytes, m->sums[r].crc);
	n += (size_t)snprintf(text + n, cap - n, "crc32c %08" PRIx32 "\n", crc32c(0, text, n));
	*bytes_out = n;
	return text;
}

static void warn_of(const char *what, const char *path)
{
	log_line(LOG_WARN, "runtime",
		 "cannot %s %s: %s; no checkpoint needs it, so remove it by hand", what, path,
		 errno_text(errno));
}

/* Makes a unique name for a draft of LATEST. Two ranks may write drafts at the same time: one of
 * them was stopped, and has not noticed that the other is now the leader. */
static int draft_name(char draft[DRAFT_BYTES])
{
	uint32_t number;
	if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
		return durable_failed("getrandom for a draft of", "LATEST");
	snprintf(draft, DRAFT_BYTES, ".%08" PRIx32, number);
	return 0;
}

/* Removes the drafts of ranks that were stopped or have ended. If such a rank resumes, it then has
 * no draft with which it could replace LATEST. */
static void remove_other_drafts(const char *dir, const struct durable *own)
{
	DIR *entries = opendir(dir);
	if (!entries) {
		warn_of("look for drafts in", dir);
		return;
	}
	for (struct dirent *e; (e = readdir(entries));) {
		char again[NAME_BYTES];
		uint32_t number;
		if (sscanf(e->d_name, "LATEST.%8" SCNx32 ".tmp", &number) != 1)
			continue;
		snprintf(again, sizeof again, "LATEST.%08" PRIx32 ".tmp", number);
		if (!strcmp(again, e->d_name) && strcmp(again, strrchr(own->temporary, '/') + 1) &&
		    unlinkat(dirfd(entries), e->d_name, 0) && errno != ENOENT)
			warn_of("remove a draft in", dir);
	}
	closedir(entries);
}

int checkpoint_manifest_write(const char *dir, const struct checkpoint_manifest *manifest,
			      int (*still)(void *context), void *context)
{
	char path[DURABLE_PATH_BYTES], draft[DRAFT_BYTES];
	struct durable file = { .fd = -1 };
	size_t bytes;
	int rc = latest_path(dir, path);
	if (!rc)
		rc = draft_name(draft);
	if (rc)
		return rc;
	char *text = print_manifest(manifest, &bytes);
	if (!text)
		return fail(SLUICE_ENOMEM, "no memory for the text of %s", path);
	rc = durable_open(&file, path, draft);
	if (!rc)
		rc = durable_write(&file, text, bytes);
	if (!rc && still && (rc = still(context)))
		durable_abandon(&file);
	if (!rc) {
		remove_other_drafts(dir, &file);
		rc = durable_commit(&file);
	}
	free(text);
	return rc;
}

static int manifest_damaged(const char *path, const char *why)
{
	return fail(SLUICE_EWIRE, "%s is damaged: %s; restore the directory from another copy",
		    path, why);
}

/* Reads a small file into NUL-terminated text in memory from malloc(). */
static int read_text(const char *dir, const char *path, char **text_out, size_t *bytes_out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return fail(SLUICE_EIO, "no checkpoint in %s: it has no file LATEST", dir);
	if (fd < 0)
		return durable_failed("open", path);
	struct stat st;
	size_t cap = ((size_t)RANKS_MAX + 8) * LINE_BYTES_MAX, n = 0;
	char *text = NULL;
	int rc = fstat(fd, &st) ? durable_failed("stat", path) : 0;
	if (!rc && (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > cap))
		rc = manifest_damaged(path, "it is no regular file, or longer than any manifest");
	cap = rc ? 0 : (size_t)st.st_size;
	if (!rc && !(text = malloc(cap + 1)))
		rc = fail(SLUICE_ENOMEM, "no memory for the text of %s", path);
	while (!rc && n < cap) {
		ssize_t got = pread(fd, text + n, cap - n, (off_t)n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			rc = durable_failed("read", path);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	close(fd);
	if (rc) {
		free(text);
		return rc;
	}
	text[n] = '\0';
	*text_out = text;
	*bytes_out = n;
	return 0;
}

static const char *next_line(const char *at)
{
	const char *end = strchr(at, '\n');
	return end ? end + 1 : at + strlen(at);
}

/* Parses leniently, because the caller prints the parsed manifest again and refuses any text that
 * differs from it. */
static int parse_manifest(const char *path, const char *text, size_t bytes,
			  struct checkpoint_manifest *m)
{
	int version = 0;
	uint64_t step = 0;
	if (sscanf(text, "sluice checkpoint %9d", &version) == 1 && version != CHECKPOINT_VERSION)
		return fail(SLUICE_EWIRE,
			    "%s has format version %d, but this Sluice (%s) reads version %d: use "
			    "the release that wrote it",
			    path, version, sluice_version(NULL), CHECKPOINT_VERSION);
	if (sscanf(text,
		   "sluice checkpoint %9d\nfolder step-%20" SCNu64 "-%8" SCNx32 "\nstep %20" SCNu64
		   "\nranks %9" SCNu32 "\n",
		   &version, &step, &m->generation, &m->step, &m->ranks) != 5)
		return manifest_damaged(path, "its first lines are not those of a checkpoint");
	if (!m->ranks || m->ranks > RANKS_MAX || m->ranks > bytes)
		return manifest_damaged(path, "its number of ranks is impossible");
	m->sums = calloc(m->ranks, sizeof *m->sums);
	if (!m->sums)
		return fail(SLUICE_ENOMEM, "no memory for %u ranks of a checkpoint", m->ranks);
	for (int line = 0; line < 4; line++)
		text = next_line(text);
	for (uint32_t r = 0; r < m->ranks; r++, text = next_line(text)) {
		/* sscanf() first searches for the end of its text, so it gets only one line at a
		 * time. */
		char line[LINE_BYTES_MAX];
		uint32_t rank;
		snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
		if (sscanf(line, "rank %10" SCNu32 " bytes %20" SCNu64 " crc32c %8" SCNx32, &rank,
			   &m->sums[r].bytes, &m->sums[r].crc) != 3)
			return manifest_damaged(path, "a rank's line is missing or garbled");
	}
	return 0;
}

int checkpoint_manifest_read(const char *dir, struct checkpoint_manifest *manifest_out)
{
	char path[DURABLE_PATH_BYTES], *text = NULL, *again = NULL;
	struct checkpoint_manifest m = { 0 };
	size_t bytes = 0, again_bytes = 0;
	int rc = latest_path(dir, path);
	if (!rc)
		rc = read_text(dir, path, &text, &bytes);
	if (!rc)
		rc = parse_manifest(path, text, bytes, &m);
	if (!rc && !(again = print_manifest(&m, &again_bytes)))
		rc = fail(SLUICE_ENOMEM, "no memory for the text of %s", path);
	if (!rc && (bytes != again_bytes || memcmp(text, again, bytes)))
		rc = manifest_damaged(path, "its lines do not match its CRC32C");
	free(text);
	free(again);
	if (rc)
		free(m.sums);
	else
		*manifest_out = m;
	return rc;
}

/* ---- removal --------------------------------------------------------------- */

/* Removes the directory of a generation. If the directory contains anything but rank files, it
 * stays, and a warning is logged. */
static void remove_generation(const char *folder)
{
	DIR *entries = opendir(folder);
	if (!entries) {
		if (errno != ENOENT)
			warn_of("open", folder);
		return;
	}
	for (struct dirent *e; (e = readdir(entries));)
		if (is_rank_file(e->d_name) && unlinkat(dirfd(entries), e->d_name, 0) &&
		    errno != ENOENT)
			warn_of("empty", folder);
	closedir(entries);
	if (rmdir(folder) && errno != ENOENT)
		warn_of("remove", folder);
}

/* Reads the beginning of LATEST, without a message. Returns its bytes, 0 if there is no such file,
 * or -1. */
static ssize_t latest_head(const char *dir, char head[256])
{
	char path[DURABLE_PATH_BYTES];
	snprintf(path, sizeof path, "%.*s/LATEST", CHECKPOINT_DIR_BYTES, dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	*head = '\0';
	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	ssize_t n = pread(fd, head, 255, 0);
	close(fd);
	head[n > 0 ? n : 0] = '\0';
	return n;
}

/* Returns 0 only if LATEST certainly does not name this generation. On a file server, even a rename
 * that failed may have taken effect. Logs nothing, because the caller reports the earlier
 * failure. */
static int may_be_latest(const struct checkpoint_place *place)
{
	char name[NAME_BYTES], line[NAME_BYTES + 16], head[256];
	generation_name(place->step, place->generation, name);
	snprintf(line, sizeof line, "folder %s\n", name);
	return latest_head(place->dir, head) < 0 || strstr(head, line) != NULL;
}

int checkpoint_replaced(const struct checkpoint_place *place)
{
	char path[DURABLE_PATH_BYTES], name[NAME_BYTES], head[256];
	struct checkpoint_place latest = *place;
	const char *at = latest_head(place->dir, head) > 0 ? strstr(head, "\nfolder ") : NULL;

	if (!at || sscanf(at, "\nfolder %47s", name) != 1 ||
	    !is_generation(name, &latest.step, &latest.generation))
		return 0;
	folder_path(&latest, path);
	return (latest.step != place->step || latest.generation != place->generation) &&
	       !access(path, F_OK);
}

void checkpoint_drop(const struct checkpoint_place *place)
{
	char folder[DURABLE_PATH_BYTES];
	folder_path(place, folder);
	if (!may_be_latest(place))
		remove_generation(folder);
}

struct checkpoint_others {
	struct checkpoint_others *next;
	uint64_t step;
	uint32_t generation;
};

struct checkpoint_others *checkpoint_others(const struct checkpoint_place *place)
{
	struct checkpoint_others *list = NULL, one = { 0 };
	DIR *entries = opendir(place->dir);
	if (!entries) {
		warn_of("look for old checkpoints in", place->dir);
		return NULL;
	}
	for (struct dirent *e; (e = readdir(entries));) {
		if (!is_generation(e->d_name, &one.step, &one.generation) ||
		    (one.step == place->step && one.generation == place->generation))
			continue;
		struct checkpoint_others *entry = malloc(sizeof *entry);
		if (!entry)
			break; /* a later checkpoint removes the rest */
		*entry = one;
		entry->next = list;
		list = entry;
	}
	closedir(entries);
	return list;
}

void checkpoint_clean(const struct checkpoint_place *place, struct checkpoint_others **list,
		      int outdated)
{
	struct checkpoint_place old = *place;
	char folder[DURABLE_PATH_BYTES];
	while (*list) {
		struct checkpoint_others *entry = *list;
		old.step = entry->step;
		old.generation = entry->generation;
		folder_path(&old, folder);
		if (outdated && may_be_latest(&old))
			log_line(LOG_WARN, "runtime",
				 "LATEST of %s could not be read, or names a checkpoint that "
				 "another job has saved there since: give each job and each model "
				 "its own directory",
				 place->dir);
		else if (outdated)
			remove_generation(folder);
		*list = entry->next;
		free(entry);
	}
}
