/* SPDX-License-Identifier: BSD-3-Clause
 * The memory of a model, counted at the allocator: an open allocates what was announced. If there
 * is not enough, all ranks refuse the model and continue. */
#include "base/error.h"
#include "base/room.h"
#include "calls/model_open.h"
#include "layout_recipes.h"
#include "ranks.h"
#include "cases.h"
#include "model/model.h"
#include "rdma/region.h"
#include <malloc.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static uint64_t counted; /* bytes of heap and regions that are currently allocated */
static int counting;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *p);
int __real_region_open(size_t bytes, unsigned access, const char *name, struct region **out);
void __real_region_close(struct region **region);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *p);
int __wrap_region_open(size_t bytes, unsigned access, const char *name, struct region **out);
void __wrap_region_close(struct region **region);

static const char *missing_region; /* name of a region whose allocation fails */

void *__wrap_malloc(size_t bytes)
{
	void *p = __real_malloc(bytes);
	counted += counting ? malloc_usable_size(p) : 0;
	return p;
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	/* These are the rows by which two ranks exchange the descriptors of their regions. */
	int descriptors = n == 2 && bytes == 2 * REGION_DESCRIPTOR_BYTES;
	void *p = missing_region && descriptors && !strcmp(missing_region, "exchange") ?
			  NULL :
			  __real_calloc(n, bytes);
	counted += counting ? malloc_usable_size(p) : 0;
	return p;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	void *p = __real_aligned_alloc(alignment, bytes);
	counted += counting ? malloc_usable_size(p) : 0;
	return p;
}

void __wrap_free(void *p)
{
	counted -= counting && p ? malloc_usable_size(p) : 0;
	__real_free(p);
}

int __wrap_region_open(size_t bytes, unsigned access, const char *name, struct region **out)
{
	if (missing_region && !strcmp(name, missing_region))
		return (fail)(SLUICE_ENOMEM, "no memory for region %s", name);
	counted += counting ? bytes : 0;
	return __real_region_open(bytes, access, name, out);
}

void __wrap_region_close(struct region **region)
{
	counted -= counting && *region ? (*region)->bytes : 0;
	__real_region_close(region);
}

static int measure(int rank, void *argument)
{
	enum { COUNT = 298900 /* nearly fills its last page */, SMALL = 20480 };
	static float params[COUNT];
	sluice_job *job = rank_join(argument);
	for (size_t i = 0; i < RECIPES; i++)
		for (uint32_t shards = 1; shards <= 5; shards += 2) {
			counted = 0;
			counting = 1;
			sluice_model *model = OPEN(job, params, .count = COUNT, .shards = shards,
						   .recipe = recipes[i]);
			counting = 0;
			uint64_t announced = model_memory(&model->layout, &model->recipe,
							  sluice_rank(job));
			/* The buffer was freed again. Names, handles and other small objects are
			 * not announced. */
			uint64_t taken = counted + layout_part_bytes(&model->layout);
			CHECK(announced <= taken);
			CHECK(taken - announced < SMALL);
			if (sluice_is_worker(job))
				sluice_model_close(&model);
			else
				CHECK_OK(sluice_serve(model));
			sluice_model_close(&model);
		}
	sluice_finalize(&job);
	return 0;
}

TEST(memory__of_workers_owners_and_servers__is_what_open_allocates)
{
	sluice_job_attr colocated = { .size = sizeof colocated };
	sluice_job_attr dedicated = { .size = sizeof dedicated, .servers = 1 };
	run_ranks(1, measure, &colocated);
	run_ranks(2, measure, &colocated);
	run_ranks(3, measure, &dedicated);
}

TEST_IN_JOB(open__above_the_memory_limit_of_one_rank__is_refused_on_all, 2)
{
	float params[1000] = { 0 };
	sluice_model *model = NULL;
	sluice_model_attr attr = ATTR(.count = 1000, .shards = 1, .recipe = "up=all down=all");
	log_capture();
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	/* Rank 0 has the only shard, so only its limit is too low. */
	attr.memory_bytes = model_memory(&model->layout, &model->recipe, 0) - 1;
	CHECK(attr.memory_bytes > model_memory(&model->layout, &model->recipe, 1));
	sluice_model_close(&model);
	CHECK(sluice_model_open(job, &attr, params, &model) ==
	      (rank ? SLUICE_EPEER : SLUICE_ENOMEM));
	CHECK(!model && error_says("rank 0 (node n1)", "SLUICE_MEMORY"));
	attr.memory_bytes++; /* the job continues */
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	sluice_model_close(&model);
}

/* A model that exceeds the limit is refused on all ranks before memory is allocated, and the job
 * continues. */
static void open_beyond_address_space(sluice_job *job, int rank, void *argument)
{
	enum { SPARE = 64 << 20 };
	static float params[1000]; /* the open is refused before missing parameters are read */
	sluice_model *model = NULL;
	sluice_model_attr attr = ATTR(.count = 1u << 22, .recipe = "up=all down=all");
	unsigned long pages = 0;
	struct rlimit limit;
	FILE *statm = fopen("/proc/self/statm", "r");
	log_capture();
	CHECK(statm && fscanf(statm, "%lu", &pages) == 1 && !getrlimit(RLIMIT_AS, &limit));
	fclose(statm);
	if (!rank) {
		limit.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + SPARE;
		CHECK(!setrlimit(RLIMIT_AS, &limit));
	}
	CHECK(sluice_model_open(job, &attr, params, &model) ==
	      (rank ? SLUICE_EPEER : SLUICE_ENOMEM));
	CHECK(!model && error_says("rank 0 (node n1)", "address space"));
	attr.count = 1000;
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	sluice_model_close(&model);
}

/* Each region that an open needs fails once on each rank. No rank then has the model, and the next
 * open works. */
TEST_IN_JOB(open__without_one_of_its_regions_on_one_rank__fails_on_all_and_works_again, 2)
{
	static const char *const names[] = { "window",   "log",     "staging",
					     "exchange", "initial", "snapshot" };
	float params[1000] = { 0 };
	sluice_model_attr attr = ATTR(.count = 1000, .recipe = "up=all down=all", .shards = 2);
	log_capture();
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		for (int without = 0; without < 2; without++) {
			sluice_model *model = NULL;
			missing_region = rank == without ? names[i] : NULL;
			CHECK(sluice_model_open(job, &attr, params, &model) ==
			      (rank == without ? SLUICE_ENOMEM : SLUICE_EPEER));
			CHECK(!model &&
			      error_says(rank == without ? names[i] : "could not open the model",
					 NULL));
			missing_region = NULL;
			CHECK_OK(sluice_model_open(job, &attr, params, &model));
			sluice_model_close(&model);
		}
}

TEST(open__beyond_the_address_space_of_one_rank__is_refused_on_all)
{
	run_in_job(3, open_beyond_address_space, NULL);
}

/* Ranks 0 and 1 share a node. Each needs more than half of the memory that is left, so together
 * they need too much. */
TEST_IN_RANKS(open__beyond_the_memory_of_the_machine__is_refused_before_it_is_taken, 2)
{
	static float params[1000];
	sluice_model *model = NULL;
	sluice_model_attr attr = ATTR(.recipe = "up=all down=all");
	attr.count = UINT32_MAX;
	if (room_left("").node / 16 > attr.count) /* the machine has more memory than this test
						     expects */
		return 0;
	sluice_job *job = rank_join(NULL);
	log_capture();
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_ENOMEM);
	CHECK(!model &&
	      error_says(rank ? "rank 1 (node n1)" : "rank 0 (node n1)", "2 ranks of its node"));
	CHECK(error_says("left", "srun --mem"));
	attr.count = 1000;
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}
