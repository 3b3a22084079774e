/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzz target for the content of a checkpoint: sluice_restore() into an opened model, and later
 * steps. Input: a recipe, then changes of 8 bytes each to a checkpoint of that recipe. The
 * checksums are recomputed, and LATEST names the checkpoint. A refused checkpoint must change
 * nothing. After an accepted one, the model must have the values of the file, and must make steps
 * or report that its values have left the range of floats. */
#include "fuzz.h"
#include "tools/step_of.h"
#include "base/bytes.h"
#include "checkpoint/checkpoint_folder.h"
#include "tests/unit/reseal.h"
#include "tests/unit/scratch.h"
#include <errno.h>

static const char *const recipes[] = {
	"up=topk(0.1) down=topk(0.2)",
	"up=all down=all",
	"up=topk(0.1) down=all signal=innovation",
	"up=all down=all signal=innovation when=lazy(3,0.5,2)",
	"up=all,grid(3) down=all signal=innovation when=lazy(3,0.5)",
	"up=all down=all signal=innovation when=lazy-server(3,0.5)",
	"up=global(0.2,2) down=global(0.2,3)",
	"up=topk(0.2) down=global(0.2,4)",
	"up=global(0.2,4) down=all",
	"up=topk(0.1) down=topk(0.2) signal=momentum(0.9) update=momentum(0.9)",
	"up=topk(0.1) down=all memory=twostep(0.5) update=ema(0.5)",
	"up=topk(0.2) down=all memory=lowpass(0.5) update=ema(1/t)",
	"up=topk(0.1) down=all when=every(2)",
	"up=all down=all signal=igt(0.5) update=ema(0.5)",
	"up=sketch(0.1) down=all",
	"up=topk(0.2) down=topk(0.2) reset=3 warmup=6",
};
enum { RECIPES = sizeof recipes / sizeof *recipes };
enum { COUNT = 40, SHARDS = 2, STEPS = 4, CHANGES_MOST = 32, CHANGE_BYTES = 8 };

enum operation { SET_NUMBER, XOR_BYTE, SET_VALUE, SET_STEP, SET_STEP_AND_VERSIONS, OPERATIONS };

static struct {
	char dir[SCRATCH_PATH];
	struct original { /* a checkpoint of a recipe after STEPS steps */
		uint8_t bytes[SCRATCH_FILE];
		size_t n;
		struct checkpoint_place place;
	} originals[RECIPES];
} files;

struct run {
	const char *recipe;
	struct original *original;
	uint8_t bytes[SCRATCH_FILE];
	struct checkpoint_place place;
};

/* No file needs to survive a loss of power, so fsync() does nothing. */
int fsync(int fd)
{
	(void)fd;
	return 0;
}

/* ---- training -------------------------------------------------------------- */

static int open_model(sluice_job *job, const char *recipe, float *x, sluice_model **model)
{
	const sluice_model_attr attr = {
		.size = sizeof(attr), .count = COUNT, .lr = 0.1f, .shards = SHARDS, .recipe = recipe
	};

	return sluice_model_open(job, &attr, x, model);
}

static int train(sluice_model *model, float *x, int steps)
{
	int rc = 0;

	for (int i = 0; i < steps && !rc; i++) {
		float grad[COUNT], point[COUNT];

		/* igt needs its gradient at the point of sluice_point() */
		if (sluice_point(model, x, point))
			memcpy(point, x, sizeof(point));
		for (int j = 0; j < COUNT; j++)
			grad[j] = (x[j] - (float)(j % 7)) * 1e-3f;
		rc = sluice_push(model, grad);
		if (!rc)
			rc = sluice_pull(model, x);
	}
	return rc;
}

/* ---- the original ---------------------------------------------------------- */

static void path_of(const struct checkpoint_place *place, char path[DURABLE_PATH_BYTES])
{
	checkpoint_path(place, 0, path);
}

static int make(sluice_job *job, void *context)
{
	struct run *run = context;
	struct original *o = run->original;
	struct checkpoint_manifest manifest;
	char path[DURABLE_PATH_BYTES];
	float x[COUNT] = { 0 };
	sluice_model *model = NULL;
	int rc = open_model(job, run->recipe, x, &model);

	if (!rc)
		rc = train(model, x, STEPS);
	if (!rc)
		rc = sluice_checkpoint(model, files.dir);
	require(!rc, run->recipe);
	sluice_model_close(&model);
	require(!checkpoint_manifest_read(files.dir, &manifest), "no LATEST");
	free(manifest.sums);
	snprintf(o->place.dir, sizeof(o->place.dir), "%s", files.dir);
	o->place.step = manifest.step;
	o->place.generation = manifest.generation;
	path_of(&o->place, path);
	const long n = scratch_read(path, o->bytes);
	require(n > 0, "no file");
	o->n = (size_t)n;
	scratch_remove(path);
	return 0;
}

/* ---- changes --------------------------------------------------------------- */

struct section {
	enum section_kind kind;
	uint8_t *payload;
	size_t bytes;
};

/* Returns section number n after the recipe. */
static struct section section_at(uint8_t *bytes, size_t n, unsigned which)
{
	struct section sections[64];
	size_t found = 0;

	for (size_t at = CHECKPOINT_HEADER_BYTES; at < n && found < 64; found++) {
		sections[found] = (struct section){ (enum section_kind)get_le32(bytes + at),
						    bytes + at + CHECKPOINT_SECTION_BYTES - 4,
						    (size_t)get_le64(bytes + at + 8) };
		at += CHECKPOINT_SECTION_BYTES + sections[found].bytes;
	}
	require(found > 1, "a file without sections");
	return sections[1 + which % (found - 1)];
}

static void set_step(struct run *run, uint64_t step)
{
	run->place.step = step;
	put_le64(run->bytes + 32, step);
}

static void set_versions(struct run *run, uint64_t version)
{
	for (unsigned i = 0; i < 63; i++) {
		struct section s = section_at(run->bytes, run->original->n, i);

		if (s.kind == SECTION_SHARD)
			put_le64(s.payload, version);
	}
}

/* A change has four bytes: operation, section, offset in it, and a one-byte number that is shifted
 * and added to. */
static void apply(struct run *run, const uint8_t *change)
{
	const struct section s = section_at(run->bytes, run->original->n, change[1]);
	const uint64_t value = ((uint64_t)(int64_t)(int8_t)change[4] << (change[5] & 63)) +
			       change[6] + ((uint64_t)change[7] << 56);
	const size_t place = get_le16(change + 2);

	if (!s.bytes)
		return;
	switch ((enum operation)(change[0] % OPERATIONS)) {
	case SET_NUMBER:
		if (s.bytes % 8 == 0)
			put_le64(s.payload + 8 * (place % (s.bytes / 8)), value);
		break;
	case XOR_BYTE: s.payload[place % s.bytes] ^= (uint8_t)value; break;
	case SET_VALUE: put_le32(s.payload + 4 * (place % (s.bytes / 4)), (uint32_t)value); break;
	case SET_STEP: set_step(run, value); break;
	case SET_STEP_AND_VERSIONS:
		set_step(run, value);
		set_versions(run, strstr(run->recipe, "every(2)") ? value / 2 : value);
		break;
	case OPERATIONS: break;
	}
}

/* Writes LATEST and the file as a rank would that intended this content. */
static void place_files(struct run *run)
{
	struct checkpoint_sum sum = { run->original->n, reseal(run->bytes, run->original->n) };
	const struct checkpoint_manifest manifest = { run->place.step, run->place.generation, 1,
						      &sum };
	char path[DURABLE_PATH_BYTES], *name;

	path_of(&run->place, path);
	*(name = strrchr(path, '/')) = '\0';
	require(!mkdir(path, 0700) || errno == EEXIST, "no folder");
	*name = '/';
	require(!scratch_write(path, run->bytes, run->original->n), "no file");
	require(!checkpoint_manifest_write(files.dir, &manifest, NULL, NULL), "no LATEST");
}

static void drop_files(const struct run *run)
{
	char path[DURABLE_PATH_BYTES];

	path_of(&run->place, path);
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
}

/* ---- restoring ------------------------------------------------------------- */

/* After a restore, saving must write the sections of the file again. */
static void expect_same_state(sluice_model *model, const struct run *run)
{
	static uint8_t again[SCRATCH_FILE];
	struct checkpoint_manifest manifest;
	struct checkpoint_place place = run->place;
	char path[DURABLE_PATH_BYTES];

	require(!sluice_checkpoint(model, files.dir), "what was restored cannot be saved");
	require(!checkpoint_manifest_read(files.dir, &manifest), "no LATEST");
	free(manifest.sums);
	place.generation = manifest.generation;
	path_of(&place, path);
	const long n = scratch_read(path, again);
	require(n == (long)run->original->n, "what was restored has another length");
	put_le32(again + 48, run->place.generation);
	reseal(again, (size_t)n);
	require(!memcmp(again, run->bytes, (size_t)n), "what was restored is saved differently");
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
}

static int restore(sluice_job *job, void *context)
{
	const struct run *run = context;
	const float untouched[COUNT] = { 0 };
	float x[COUNT] = { 0 };
	sluice_model *model = NULL;

	require(!open_model(job, run->recipe, x, &model), "the model cannot be opened");
	int rc = sluice_restore(model, files.dir, x, NULL);
	if (rc) {
		expect_refusal(rc, SLUICE_EWIRE, SLUICE_EWIRE);
		require(!step_of(model).steps && !memcmp(x, untouched, sizeof(x)),
			"refused, but something was stored");
		begin();
		require(!train(model, x, 2), "no step after a refusal");
	} else {
		require(step_of(model).steps == run->place.step, "restored another step");
		expect_same_state(model, run);
		begin();
		rc = train(model, x, 6);
		if (rc)
			expect_refusal(rc, SLUICE_ENUMERIC, SLUICE_ENUMERIC);
	}
	sluice_model_close(&model);
	return 0;
}

static void remove_folder(void)
{
	scratch_remove(files.dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct run run;

	if (!size)
		return 0;
	begin();
	if (!files.dir[0]) {
		require(!scratch_make(files.dir), "no temporary folder");
		atexit(remove_folder);
	}
	run.recipe = recipes[data[0] % RECIPES];
	run.original = &files.originals[data[0] % RECIPES];
	if (!run.original->n)
		require(!sluice_simulate(NULL, 1, make, &run), "no checkpoint to begin with");
	memcpy(run.bytes, run.original->bytes, run.original->n);
	run.place = run.original->place;
	for (size_t at = 1, n = 0; size - at >= CHANGE_BYTES && n < CHANGES_MOST; n++) {
		apply(&run, data + at);
		at += CHANGE_BYTES;
	}
	place_files(&run);
	sluice_simulate(NULL, 1, restore, &run);
	drop_files(&run);
	return 0;
}
