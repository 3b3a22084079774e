/* SPDX-License-Identifier: BSD-3-Clause
 * Writes and reads the format of checkpoint_file.h through one fixed buffer, so that a checkpoint
 * needs no second copy of the model. The reader goes through the file twice: once to check it, and
 * once to store the values. */
#include "checkpoint/checkpoint_file.h"
#include "base/bytes.h"
#include "base/error.h"
#include "compress/select.h"
#include "checkpoint/durable.h"
#include "recipe/recipe.h"
#include "sluice.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 18 };
static const uint8_t magic[4] = { 'S', 'L', 'C', 'K' };

/* Returns for example "the parameters of shard 3", in a thread-local buffer. */
static const char *section_text(uint32_t kind, uint32_t id)
{
	static _Thread_local char text[64];
	const char *name = "unknown section";
	switch ((enum section_kind)kind) {
	case SECTION_RECIPE: return "the recipe";
	case SECTION_WORKER: return "the worker's counters";
	case SECTION_WORKER_RESIDUAL: return "the worker's residual";
	case SECTION_WORKER_VELOCITY: return "the worker's velocity";
	case SECTION_WORKER_MEMORY: return "the worker's memory";
	case SECTION_WORKER_FILTER: return "the worker's filter";
	case SECTION_WORKER_PREVIOUS: return "the worker's parameters of the step before";
	case SECTION_WORKER_REFERENCE: return "the worker's reference";
	case SECTION_WORKER_SINCE: return "the model's change since the worker's last upload";
	case SECTION_WORKER_LAZY: return "the worker's memory of model changes";
	case SECTION_WORKER_CENSUS: return "the worker's share";
	case SECTION_WORKER_OWN: return "the worker's own parameters";
	case SECTION_WORKER_BASE: return "the worker's common parameters";
	case SECTION_WORKER_GUARD: return "the worker's guard";
	case SECTION_WORKER_BITS: return "the worker's choice of values";
	case SECTION_SHARD: name = "counters"; break;
	case SECTION_SHARD_PARAMETERS: name = "parameters"; break;
	case SECTION_SHARD_RESIDUAL: name = "residual"; break;
	case SECTION_SHARD_VELOCITY: name = "velocity"; break;
	case SECTION_SHARD_VARIANCE: name = "variance"; break;
	case SECTION_SHARD_RUNNING: name = "sum of references"; break;
	case SECTION_SHARD_CENSUS: name = "share"; break;
	case SECTION_SHARD_GUARD: name = "doublings"; break;
	case SECTION_SHARD_BITS: name = "choice of values"; break;
	}
	snprintf(text, sizeof text, "the %s of shard %u", name, id);
	return text;
}

static uint64_t payload_bytes(const struct checkpoint_section *s)
{
	return s->count * (s->values ? sizeof *s->values : sizeof *s->numbers);
}

/* ---- write ----------------------------------------------------------------- */

struct writer {
	struct durable file;
	uint8_t *memory; /* memory to which the content is written instead of the file, or NULL */
	uint8_t *buffer;
	size_t used;
	uint32_t crc; /* checksum of all content so far */
};

static int flush(struct writer *w)
{
	int rc = 0;
	if (w->memory && w->used) {
		memcpy(w->memory, w->buffer, w->used);
		w->memory += w->used;
	} else if (w->used) {
		rc = durable_write(&w->file, w->buffer, w->used);
	}
	w->used = 0;
	return rc;
}

/* Makes room for n <= BUFFER_BYTES bytes at the end of the buffer. */
static int room(struct writer *w, size_t n)
{
	return BUFFER_BYTES - w->used < n ? flush(w) : 0;
}

static int put_bytes(struct writer *w, const void *bytes, size_t n)
{
	int rc = room(w, n);
	if (rc)
		return rc;
	memcpy(w->buffer + w->used, bytes, n);
	w->used += n;
	w->crc = crc32c(w->crc, bytes, n);
	return 0;
}

static int put_crc(struct writer *w)
{
	int rc = room(w, 4);
	if (rc)
		return rc;
	put_le32(w->buffer + w->used, w->crc);
	w->used += 4;
	return 0;
}

static int put_values(struct writer *w, const float *values, uint64_t count)
{
	int rc = 0;
	for (uint64_t at = 0; at < count && !rc;) {
		if ((rc = room(w, sizeof *values)))
			break;
		size_t n = (BUFFER_BYTES - w->used) / sizeof *values;
		uint8_t *out = w->buffer + w->used;
		if (n > count - at)
			n = (size_t)(count - at);
		for (size_t i = 0; i < n; i++)
			put_le32(out + 4 * i, float_bits(values[at + i]));
		w->crc = crc32c(w->crc, out, 4 * n);
		w->used += 4 * n;
		at += n;
	}
	return rc;
}

static int put_section_head(struct writer *w, enum section_kind kind, uint32_t id, uint64_t bytes)
{
	uint8_t head[16];
	put_le32(head, kind);
	put_le32(head + 4, id);
	put_le64(head + 8, bytes);
	int rc = put_bytes(w, head, sizeof head);
	return rc ? rc : put_crc(w);
}

static int put_section(struct writer *w, const struct checkpoint_section *s)
{
	uint64_t bad = s->values ? first_nonfinite(s->values, s->count) : s->count;
	if (bad != s->count)
		return fail(SLUICE_ENUMERIC,
			    "NaN or infinity at index %llu of %s: the run has diverged, so no "
			    "checkpoint is written and the previous one stays; restore it with a "
			    "lower learning rate or clip=",
			    (unsigned long long)bad, section_text(s->kind, s->id));
	int rc = put_section_head(w, s->kind, s->id, payload_bytes(s));
	if (!rc && s->values)
		rc = put_values(w, s->values, s->count);
	for (uint64_t i = 0; !rc && !s->values && i < s->count; i++) {
		uint8_t number[8];
		put_le64(number, s->numbers[i]);
		rc = put_bytes(w, number, sizeof number);
	}
	return rc ? rc : put_crc(w);
}

uint64_t checkpoint_bytes_size(const char *recipe, const struct checkpoint_section *sections,
			       uint32_t n)
{
	uint64_t bytes = CHECKPOINT_HEADER_BYTES + CHECKPOINT_SECTION_BYTES + strlen(recipe);
	for (uint32_t i = 0; i < n; i++)
		bytes += CHECKPOINT_SECTION_BYTES + payload_bytes(&sections[i]);
	return bytes;
}

static int put_header(struct writer *w, const struct checkpoint_identity *id, uint32_t n_sections,
		      uint64_t bytes)
{
	uint8_t h[CHECKPOINT_HEADER_BYTES - 4] = { 0 };
	memcpy(h, magic, sizeof magic);
	put_le32(h + 4, CHECKPOINT_VERSION);
	put_le32(h + 8, id->rank);
	put_le32(h + 12, id->size);
	put_le32(h + 16, id->workers);
	put_le32(h + 20, id->shards);
	put_le64(h + 24, id->count);
	put_le64(h + 32, id->step);
	put_le64(h + 40, id->schema);
	put_le32(h + 48, id->generation);
	put_le32(h + 52, n_sections + 1);
	put_le64(h + 56, bytes);
	int rc = put_bytes(w, h, sizeof h);
	return rc ? rc : put_crc(w);
}

static int put_all(struct writer *w, const struct checkpoint_identity *identity,
		   const struct checkpoint_section *sections, uint32_t n_sections, uint64_t bytes)
{
	const size_t recipe_bytes = strlen(identity->recipe);
	int rc = put_header(w, identity, n_sections, bytes);
	if (!rc)
		rc = put_section_head(w, SECTION_RECIPE, 0, recipe_bytes);
	if (!rc)
		rc = put_bytes(w, identity->recipe, recipe_bytes);
	if (!rc)
		rc = put_crc(w);
	for (uint32_t i = 0; i < n_sections && !rc; i++)
		rc = put_section(w, &sections[i]);
	return rc ? rc : flush(w);
}

int checkpoint_file_write(const char *path, const struct checkpoint_identity *identity,
			  const struct checkpoint_section *sections, uint32_t n_sections,
			  struct checkpoint_sum *sum_out)
{
	struct writer w = { .file.fd = -1, .buffer = malloc(BUFFER_BYTES) };
	if (!w.buffer)
		return fail(SLUICE_ENOMEM, "no memory for the buffer of a checkpoint");
	uint64_t bytes = checkpoint_bytes_size(identity->recipe, sections, n_sections);
	int rc = durable_open(&w.file, path, "");
	if (!rc)
		rc = put_all(&w, identity, sections, n_sections, bytes);
	if (!rc)
		rc = durable_commit(&w.file);
	durable_abandon(&w.file);
	free(w.buffer);
	if (!rc)
		*sum_out = (struct checkpoint_sum){ bytes, w.crc };
	return rc;
}

int checkpoint_bytes_write(uint8_t *out, const struct checkpoint_identity *identity,
			   const struct checkpoint_section *sections, uint32_t n_sections)
{
	struct writer w = { .file.fd = -1, .memory = out, .buffer = malloc(BUFFER_BYTES) };
	if (!w.buffer)
		return fail(SLUICE_ENOMEM, "no memory for the buffer of a checkpoint");
	int rc = put_all(&w, identity, sections, n_sections,
			 checkpoint_bytes_size(identity->recipe, sections, n_sections));
	free(w.buffer);
	return rc;
}

/* ---- read ------------------------------------------------------------------ */

struct checkpoint_file {
	char path[DURABLE_PATH_BYTES];
	struct checkpoint_identity identity;
	char recipe[RECIPE_TEXT_BYTES]; /* identity.recipe */
	const struct checkpoint_section *sections;
	uint32_t n_sections;
	struct checkpoint_sum sum;
	int fd;
	const uint8_t *bytes; /* memory from which the content is read instead of fd, or NULL */
	uint64_t at;
	uint32_t crc; /* checksum of all content so far */
	uint8_t buffer[BUFFER_BYTES];
};

static int file_damaged(const struct checkpoint_file *f, const char *part, const char *why)
{
	return fail(SLUICE_EWIRE,
		    "the checkpoint file %s is damaged: %s: %s; restore from another copy", f->path,
		    part, why);
}

/* Reads the next n bytes of the content. `part` is their name in messages. */
static int get_bytes(struct checkpoint_file *f, void *out, size_t n, const char *part)
{
	if (f->bytes && n > f->sum.bytes - f->at)
		return file_damaged(f, part, "the bytes end within it");
	if (f->bytes)
		memcpy(out, f->bytes + f->at, n);
	for (size_t have = 0; have < n && !f->bytes;) {
		ssize_t got = pread(f->fd, (uint8_t *)out + have, n - have, (off_t)(f->at + have));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return durable_failed("read", f->path);
		if (got == 0)
			return file_damaged(f, part, "the file ends within it");
		have += (size_t)got;
	}
	f->crc = crc32c(f->crc, out, n);
	f->at += n;
	return 0;
}

static int get_crc(struct checkpoint_file *f, const char *part)
{
	uint8_t field[4];
	uint32_t content = f->crc;
	int rc = get_bytes(f, field, sizeof field, part);
	f->crc = content; /* CRC fields are not part of the content */
	if (!rc && get_le32(field) != content)
		rc = file_damaged(f, part, "its CRC32C does not match");
	return rc;
}

static int other_shape(const struct checkpoint_file *f, const char *what, uint64_t made,
		       uint64_t here)
{
	return fail(SLUICE_EINVAL,
		    "the checkpoint file %s was made for %llu %s, but this job has %llu: restore "
		    "with the same numbers of ranks, workers (servers=), shards and parameters",
		    f->path, (unsigned long long)made, what, (unsigned long long)here);
}

/* Compares the file with the values that LATEST records. If they differ, the file is damaged or
 * belongs to another checkpoint. */
static int check_place(const struct checkpoint_file *f, const uint8_t *h)
{
	const struct checkpoint_identity *want = &f->identity;
	if (get_le32(h + 8) != want->rank)
		return file_damaged(f, "the header", "it belongs to another rank");
	if (get_le64(h + 32) != want->step || get_le32(h + 48) != want->generation)
		return file_damaged(f, "the header",
				    "it belongs to another checkpoint than LATEST, or the state "
				    "of the first rank, names");
	if (get_le64(h + 56) != f->sum.bytes || get_le32(h + 64))
		return file_damaged(f, "the header", "its length or a reserved field is wrong");
	return 0;
}

static int get_header(struct checkpoint_file *f, uint64_t *schema_out, uint32_t *sections_out)
{
	const struct checkpoint_identity *want = &f->identity;
	uint8_t h[CHECKPOINT_HEADER_BYTES - 4];
	int rc = get_bytes(f, h, sizeof h, "the header");
	if (rc)
		return rc;
	if (memcmp(h, magic, sizeof magic))
		return file_damaged(f, "the header", "it is no checkpoint file of Sluice");
	if (get_le32(h + 4) != CHECKPOINT_VERSION)
		return fail(SLUICE_EWIRE,
			    "the checkpoint file %s has format version %u, but this Sluice (%s) "
			    "reads version %d: use the release that wrote it",
			    f->path, get_le32(h + 4), sluice_version(NULL), CHECKPOINT_VERSION);
	if ((rc = get_crc(f, "the header")))
		return rc;
	if (get_le32(h + 12) != want->size)
		return other_shape(f, "ranks", get_le32(h + 12), want->size);
	if (get_le32(h + 16) != want->workers)
		return other_shape(f, "workers", get_le32(h + 16), want->workers);
	if (get_le64(h + 24) != want->count)
		return other_shape(f, "parameters", get_le64(h + 24), want->count);
	if (get_le32(h + 20) != want->shards)
		return other_shape(f, "shards", get_le32(h + 20), want->shards);
	*schema_out = get_le64(h + 40);
	*sections_out = get_le32(h + 52);
	return check_place(f, h);
}

static int get_section_head(struct checkpoint_file *f, enum section_kind kind, uint32_t id,
			    uint64_t *bytes_out)
{
	const char *part = section_text(kind, id);
	uint8_t head[16];
	int rc = get_bytes(f, head, sizeof head, part);
	if (!rc)
		rc = get_crc(f, part);
	if (!rc && (get_le32(head) != (uint32_t)kind || get_le32(head + 4) != id))
		rc = file_damaged(f, part, "another section is in its place");
	*bytes_out = get_le64(head + 8);
	return rc;
}

/* Returns 1 if a text from outside has bytes that could control the terminal on which a message
 * shows it. */
static int holds_control_bytes(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return 1;
	return 0;
}

/* Returns the length of a word of a recipe, limited to the space in a message. */
static int word_length(const char *word)
{
	size_t n = strcspn(word, " ");
	return n < 80 ? (int)n : 80;
}

/* Compares the recipe by its text, so that a message can name the difference. The digest covers
 * everything else, but cannot tell what differs. */
static int get_recipe(struct checkpoint_file *f, uint64_t schema)
{
	const char *part = section_text(SECTION_RECIPE, 0);
	char text[RECIPE_TEXT_BYTES] = "";
	uint64_t bytes;
	int rc = get_section_head(f, SECTION_RECIPE, 0, &bytes);
	if (rc)
		return rc;
	if (bytes >= sizeof text)
		return file_damaged(f, part, "it is longer than any recipe");
	rc = get_bytes(f, text, (size_t)bytes, part);
	if (!rc)
		rc = get_crc(f, part);
	if (rc)
		return rc;
	if (holds_control_bytes(text, (size_t)bytes))
		return file_damaged(f, part, "it holds a NUL byte or another control character");
	if (strcmp(text, f->recipe)) {
		size_t word = recipe_word_apart(text, f->recipe);
		return fail(SLUICE_EINVAL,
			    "the checkpoint file %s was made with \"%.*s\" in the recipe, but this "
			    "model has \"%.*s\": open the model with the checkpoint's recipe, "
			    "\"%.300s\"",
			    f->path, word_length(text + word), text + word,
			    word_length(f->recipe + word), f->recipe + word, text);
	}
	if (schema != f->identity.schema)
		return fail(
			SLUICE_EINVAL,
			"the checkpoint file %s was made for a model with other tensors or another "
			"steps_per_epoch (schema %016llx, here %016llx): open the same model",
			f->path, (unsigned long long)schema,
			(unsigned long long)f->identity.schema);
	return 0;
}

/* Reads the values through the buffer. They are stored only if `store` is set. */
static int get_values(struct checkpoint_file *f, const struct checkpoint_section *s, int store)
{
	const char *part = section_text(s->kind, s->id);
	int rc = 0;
	for (uint64_t at = 0; at < s->count && !rc;) {
		size_t n = BUFFER_BYTES / sizeof(float);
		if (n > s->count - at)
			n = (size_t)(s->count - at);
		rc = get_bytes(f, f->buffer, n * sizeof(float), part);
		for (size_t i = 0; i < n && !rc; i++) {
			uint32_t bits = get_le32(f->buffer + 4 * i);
			if ((bits & 0x7f800000u) == 0x7f800000u)
				rc = file_damaged(f, part, "it holds NaN or infinity");
			else if (store)
				s->values[at + i] = bits_float(bits);
		}
		at += n;
	}
	return rc;
}

static int get_section(struct checkpoint_file *f, const struct checkpoint_section *s, int store)
{
	const char *part = section_text(s->kind, s->id);
	uint64_t bytes;
	int rc = get_section_head(f, s->kind, s->id, &bytes);
	if (!rc && bytes != payload_bytes(s))
		rc = file_damaged(f, part, "its length is wrong");
	if (!rc && s->values)
		rc = get_values(f, s, store);
	for (uint64_t i = 0; !rc && !s->values && i < s->count; i++) {
		uint8_t number[8];
		rc = get_bytes(f, number, sizeof number, part);
		if (!rc && !store)
			s->numbers[i] = get_le64(number);
	}
	return rc ? rc : get_crc(f, part);
}

static int read_sections(struct checkpoint_file *f, int store)
{
	uint64_t schema = 0;
	uint32_t sections = 0;
	f->at = 0;
	f->crc = 0;
	int rc = get_header(f, &schema, &sections);
	if (!rc)
		rc = get_recipe(f, schema);
	if (!rc && sections != f->n_sections + 1)
		rc = file_damaged(f, "the header", "the number of sections is wrong");
	for (uint32_t i = 0; i < f->n_sections && !rc; i++)
		rc = get_section(f, &f->sections[i], store);
	if (!rc && f->at != f->sum.bytes)
		rc = file_damaged(f, "the end", "bytes follow the last section");
	if (!rc && f->crc != f->sum.crc)
		rc = file_damaged(f, "the whole", "it is another file than LATEST names");
	return rc;
}

static int open_regular(struct checkpoint_file *f)
{
	struct stat st;
	/* O_NONBLOCK keeps the open of a FIFO from blocking. */
	f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (f->fd < 0)
		return durable_failed("open", f->path);
	if (fstat(f->fd, &st))
		return durable_failed("stat", f->path);
	if (!S_ISREG(st.st_mode))
		return file_damaged(f, "the whole", "it is no regular file");
	if ((uint64_t)st.st_size != f->sum.bytes)
		return file_damaged(f, "the whole",
				    (uint64_t)st.st_size < f->sum.bytes ?
					    "it is shorter than LATEST says" :
					    "it is longer than LATEST says");
	return 0;
}

/* bytes: the content that replaces the file at path; NULL if there is a file. */
static int open_content(const char *path, const uint8_t *bytes,
			const struct checkpoint_identity *identity,
			const struct checkpoint_section *sections, uint32_t n_sections,
			const struct checkpoint_sum *sum, struct checkpoint_file **file_out)
{
	if (strlen(path) >= DURABLE_PATH_BYTES || strlen(identity->recipe) >= RECIPE_TEXT_BYTES)
		return fail(SLUICE_EINVAL, "the path or the recipe of a checkpoint is too long");
	struct checkpoint_file *f = malloc(sizeof *f);
	if (!f)
		return fail(SLUICE_ENOMEM, "no memory for the buffer of a checkpoint");
	memcpy(f->path, path, strlen(path) + 1);
	memcpy(f->recipe, identity->recipe, strlen(identity->recipe) + 1);
	f->identity = *identity;
	f->identity.recipe = f->recipe;
	f->sections = sections;
	f->n_sections = n_sections;
	f->sum = *sum;
	f->bytes = bytes;
	f->fd = -1;
	int rc = bytes ? 0 : open_regular(f);
	if (!rc)
		rc = read_sections(f, 0);
	if (rc)
		checkpoint_file_close(&f);
	else
		*file_out = f;
	return rc;
}

int checkpoint_file_open(const char *path, const struct checkpoint_identity *identity,
			 const struct checkpoint_section *sections, uint32_t n_sections,
			 const struct checkpoint_sum *sum, struct checkpoint_file **file_out)
{
	return open_content(path, NULL, identity, sections, n_sections, sum, file_out);
}

static const char bytes_name[] = "in memory";

int checkpoint_bytes_peek(const uint8_t *bytes, uint64_t n, uint64_t *step_out,
			  uint32_t *generation_out)
{
	if (n < CHECKPOINT_HEADER_BYTES)
		return fail(SLUICE_EWIRE,
			    "the state has %llu bytes, which is less than the header of any state",
			    (unsigned long long)n);
	*step_out = get_le64(bytes + 32);
	*generation_out = get_le32(bytes + 48);
	return 0;
}

/* The last four bytes are the CRC of all other bytes. For a file, LATEST records this CRC. */
int checkpoint_bytes_open(const uint8_t *bytes, uint64_t n,
			  const struct checkpoint_identity *identity,
			  const struct checkpoint_section *sections, uint32_t n_sections,
			  struct checkpoint_file **file_out)
{
	const struct checkpoint_sum sum = { n, n < 4 ? 0 : get_le32(bytes + n - 4) };
	return open_content(bytes_name, bytes, identity, sections, n_sections, &sum, file_out);
}

int checkpoint_file_load(struct checkpoint_file *file)
{
	return read_sections(file, 1);
}

int checkpoint_file_refuse(const struct checkpoint_file *file,
			   const struct checkpoint_section *section, const char *why)
{
	return file_damaged(file, section_text(section->kind, section->id), why);
}

void checkpoint_file_close(struct checkpoint_file **file)
{
	struct checkpoint_file *f = file ? *file : NULL;
	if (!f)
		return;
	*file = NULL;
	if (f->fd >= 0)
		close(f->fd);
	free(f);
}
