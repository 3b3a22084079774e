/* SPDX-License-Identifier: BSD-3-Clause
 * See rank_file.h. */
#include "rank_file.h"
#include "base/bytes.h"
#include "sluice.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

struct checkpoint_identity identity(void)
{
	return (struct checkpoint_identity){ .rank = 1,
					     .size = 4,
					     .workers = 3,
					     .shards = 5,
					     .count = COUNT,
					     .step = 1234,
					     .schema = 0x1122334455667788u,
					     .generation = 0xcafe0123u,
					     .recipe = RECIPE };
}

void sections_of(struct state *s, struct checkpoint_section out[SECTIONS])
{
	out[0] = (struct checkpoint_section){ SECTION_WORKER, 0, 1, NULL, &s->lr };
	out[1] = (struct checkpoint_section){ SECTION_WORKER_RESIDUAL, 0, COUNT, s->residual,
					      NULL };
	out[2] = (struct checkpoint_section){ SECTION_WORKER_VELOCITY, 0, COUNT, s->velocity,
					      NULL };
	out[3] = (struct checkpoint_section){ SECTION_SHARD, 3, 1, NULL, &s->version };
	out[4] = (struct checkpoint_section){ SECTION_SHARD_PARAMETERS, 3, SPAN, s->parameters,
					      NULL };
	out[5] = (struct checkpoint_section){ SECTION_SHARD_RESIDUAL, 3, SPAN, s->shard_residual,
					      NULL };
}

void fill_state(struct state *s, float from)
{
	for (int i = 0; i < COUNT; i++) {
		s->residual[i] = from + (float)i * 0.1f;
		s->velocity[i] = -from * (float)i;
	}
	for (int i = 0; i < SPAN; i++) {
		s->parameters[i] = from / (float)(i + 1);
		s->shard_residual[i] = from * 1e-20f * (float)i;
	}
	s->velocity[0] = -0.0f;
	s->velocity[1] = 0x1p-149f; /* the smallest denormal */
	s->velocity[2] = 0x1.fffffep127f;
	s->lr = float_bits(0.05f);
	s->version = 1234;
}

int save(struct fixture *f)
{
	struct checkpoint_section sections[SECTIONS];
	struct checkpoint_identity who = identity();

	sections_of(&f->saved, sections);
	return checkpoint_file_write(f->path, &who, sections, SECTIONS, &f->sum);
}

int load_as(struct fixture *f, const struct checkpoint_identity *who)
{
	struct checkpoint_section sections[SECTIONS];
	struct checkpoint_file *file = NULL;

	sections_of(&f->loaded, sections);
	int rc = checkpoint_file_open(f->path, who, sections, SECTIONS, &f->sum, &file);
	if (!rc)
		rc = checkpoint_file_load(file);
	checkpoint_file_close(&file);
	return rc;
}

int load(struct fixture *f)
{
	struct checkpoint_identity who = identity();

	return load_as(f, &who);
}

void assert_nothing_stored(const struct fixture *f)
{
	assert_memory_equal(f->loaded.residual, f->untouched.residual, sizeof f->loaded.residual);
	assert_memory_equal(f->loaded.velocity, f->untouched.velocity, sizeof f->loaded.velocity);
	assert_memory_equal(f->loaded.parameters, f->untouched.parameters,
			    sizeof f->loaded.parameters);
	assert_memory_equal(f->loaded.shard_residual, f->untouched.shard_residual,
			    sizeof f->loaded.shard_residual);
}

void assert_refused(struct fixture *f, int code, const char *part)
{
	assert_int_equal(load(f), code);
	assert_nothing_stored(f);
	if (!strstr(sluice_last_error(), part) || !strstr(sluice_last_error(), f->path))
		fail_msg("\"%s\" says neither \"%s\" nor %s", sluice_last_error(), part, f->path);
}

int rank_file_open(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	if (!f || scratch_make(f->dir))
		return -1;
	snprintf(f->path, sizeof f->path, "%s/rank-00001", f->dir);
	fill_state(&f->saved, 1.5f);
	memset(&f->untouched, 0x5a, sizeof f->untouched);
	f->loaded = f->untouched;
	*state = f;
	if (save(f))
		return -1;
	f->n = (size_t)scratch_read(f->path, f->bytes);
	return f->n == f->sum.bytes ? 0 : -1;
}

int rank_file_close(void **state)
{
	struct fixture *f = *state;

	scratch_remove(f->dir);
	free(f);
	return 0;
}
