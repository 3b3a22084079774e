/* SPDX-License-Identifier: BSD-3-Clause
 * A job whose ranks find each other through the program's store: success, and each way in which a
 * store, a callback or a rank can fail. The ranks of most cases are threads that exchange records;
 * the last case is a real job of processes. */
#include "base/log.h"
#include "sluice.h"
#include "slurm/bootstrap.h"
#include "cases.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 4, SLOTS = 3 * RANKS, VALUE_BYTES = 4096, PATIENT_MS = 60000, SHORT_MS = 300 };

enum trouble { NONE, SHORT, LONG, TORN, EMPTY, FAILS };

/* The store of all ranks. It is in shared memory, so that ranks can be processes. */
struct store {
	struct {
		atomic_int put; /* 1 while it is written, 2 when it can be read */
		char key[96];
		size_t bytes;
		uint8_t value[VALUE_BYTES];
	} slots[SLOTS];
	atomic_int used, fenced;
	/* The failures: at get() of this key, at every put(), at the fence. */
	char troubled[96];
	enum trouble get, put, fence;
};

static struct store *store;

static void sleep_ms(int ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

static int put(void *context, const char *key, const void *value, size_t bytes)
{
	struct store *s = context;
	int slot = atomic_fetch_add(&s->used, 1);

	if (s->put == FAILS)
		return 42;
	assert_in_range(bytes, 1, VALUE_BYTES);
	snprintf(s->slots[slot].key, sizeof(s->slots[slot].key), "%s", key);
	memcpy(s->slots[slot].value, value, bytes);
	s->slots[slot].bytes = bytes;
	atomic_store(&s->slots[slot].put, 2);
	return 0;
}

static int spoil(enum trouble trouble, uint8_t *value, size_t room, size_t *bytes)
{
	switch (trouble) {
	case NONE: return 0;
	case SHORT: *bytes = 7; return 0;
	case LONG: *bytes = room + 1; return 0;
	case TORN: value[20] ^= 1; return 0;
	case EMPTY: *bytes = 0; return 0;
	case FAILS: return -77;
	}
	return 0;
}

/* The last put() of a key is valid. */
static int get(void *context, const char *key, void *value, size_t room, size_t *bytes_out,
	       int timeout_ms)
{
	struct store *s = context;

	for (int waited = 0;; waited += 5) {
		for (int i = SLOTS - 1; i >= 0; i--) {
			if (atomic_load(&s->slots[i].put) != 2 || strcmp(s->slots[i].key, key) != 0)
				continue;
			memcpy(value, s->slots[i].value, s->slots[i].bytes);
			*bytes_out = s->slots[i].bytes;
			return strcmp(key, s->troubled) ? 0 : spoil(s->get, value, room, bytes_out);
		}
		if (waited >= timeout_ms)
			return SLUICE_ETIMEDOUT;
		sleep_ms(5);
	}
}

static int fence(void *context, int timeout_ms)
{
	struct store *s = context;

	const int mine = atomic_fetch_add(&s->fenced, 1);

	if (s->fence == FAILS)
		return 9;
	for (int waited = 0; atomic_load(&s->fenced) < (mine / RANKS + 1) * RANKS; waited += 5) {
		if (waited >= timeout_ms)
			return SLUICE_ETIMEDOUT;
		sleep_ms(5);
	}
	return 0;
}

static void swallow(int level, const char *line, void *context)
{
}

static int setup(void **state)
{
	log_set_sink(swallow, NULL);
	store = mmap(NULL, sizeof(*store), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	return store == MAP_FAILED;
}

static int teardown(void **state)
{
	munmap(store, sizeof(*store));
	return 0;
}

static sluice_bootstrap callbacks(int rank, int ranks)
{
	return (sluice_bootstrap){ .size = sizeof(sluice_bootstrap),
				   .rank = rank,
				   .ranks = ranks,
				   .context = store,
				   .put = put,
				   .get = get };
}

/* A rank that only exchanges records. */
struct player {
	sluice_bootstrap callbacks;
	int timeout_ms, again; /* again: it exchanges records once more */
	pthread_t thread;
	int rc;
	char error[1024];
	char node[NODE_NAME_BYTES], origin[128];
	struct rank_record *records;
};

static void *exchange(void *argument)
{
	struct player *p = argument;
	struct bootstrap *b = NULL;
	uint8_t payload[2] = { 7, (uint8_t)p->callbacks.rank };

	p->rc = bootstrap_open(&p->callbacks, p->timeout_ms, &b);
	if (!p->rc) {
		snprintf(p->node, sizeof(p->node), "%s", bootstrap_node(b));
		snprintf(p->origin, sizeof(p->origin), "%s", bootstrap_origin(b));
		p->rc = bootstrap_exchange(b, payload, sizeof(payload), &p->records);
	}
	if (!p->rc && p->again) {
		free(p->records);
		p->records = NULL;
		payload[0] = 9;
		p->rc = bootstrap_exchange(b, payload, sizeof(payload), &p->records);
	}
	if (p->rc)
		snprintf(p->error, sizeof(p->error), "%s", sluice_last_error());
	bootstrap_close(&b);
	return NULL;
}

static void play(struct player *players, int n)
{
	for (int r = 0; r < n; r++) {
		players[r].timeout_ms = players[r].timeout_ms ? players[r].timeout_ms : PATIENT_MS;
		assert_int_equal(pthread_create(&players[r].thread, NULL, exchange, &players[r]),
				 0);
	}
	for (int r = 0; r < n; r++)
		pthread_join(players[r].thread, NULL);
}

static void fails(struct player *p, int code, const char *a, const char *b)
{
	if (p->rc != code || !strstr(p->error, a) || !strstr(p->error, b))
		fail_msg("expected %d with \"%s\" and \"%s\", got %d: %s", code, a, b, p->rc,
			 p->error);
	assert_null(p->records);
}

#define CASE(name) TEST_WITH(name, setup, teardown)

CASE(exchange__four_ranks__each_gets_all_cards)
{
	for (int fenced = 0; fenced < 2; fenced++) {
		struct player players[RANKS] = { 0 };

		for (int r = 0; r < RANKS; r++) {
			players[r].callbacks = callbacks(r, RANKS);
			players[r].callbacks.node = r ? "blue" : NULL;
			players[r].callbacks.name = fenced ? "fenced" : NULL;
			players[r].callbacks.fence = fenced ? fence : NULL;
		}
		play(players, RANKS);
		for (int r = 0; r < RANKS; r++) {
			assert_int_equal(players[r].rc, 0);
			for (int p = 0; p < RANKS; p++) {
				assert_int_equal(players[r].records[p].payload_bytes, 2);
				assert_int_equal(players[r].records[p].payload[1], p);
			}
			assert_string_equal(players[r].records[2].node, "blue");
			free(players[r].records);
		}
		assert_string_equal(players[3].node, "blue");
		assert_string_not_equal(players[0].node, "");
		assert_non_null(strstr(players[0].origin,
				       fenced ? "callbacks (fenced)" : "callbacks (sluice)"));
		teardown(state);
		setup(state);
	}
}

CASE(exchange__again__each_gets_all_second_cards)
{
	for (int fenced = 0; fenced < 2; fenced++) {
		struct player players[RANKS] = { 0 };

		for (int r = 0; r < RANKS; r++) {
			players[r].callbacks = callbacks(r, RANKS);
			players[r].callbacks.fence = fenced ? fence : NULL;
			players[r].again = 1;
		}
		play(players, RANKS);
		for (int r = 0; r < RANKS; r++) {
			assert_int_equal(players[r].rc, 0);
			for (int p = 0; p < RANKS; p++) {
				assert_int_equal(players[r].records[p].payload[0], 9);
				assert_int_equal(players[r].records[p].payload[1], p);
			}
			free(players[r].records);
		}
		teardown(state);
		setup(state);
	}
}

/* Runs two ranks, of which rank 0 meets the failure when it gets the record of rank 1. */
static struct player troubled(enum trouble trouble)
{
	struct player players[2] = { { .callbacks = callbacks(0, 2) },
				     { .callbacks = callbacks(1, 2) } };

	players[1].callbacks.name = players[0].callbacks.name = "x";
	strcpy(store->troubled, "x.card.1");
	store->get = trouble;
	players[1].timeout_ms = SHORT_MS;
	play(players, 2);
	free(players[1].records);
	return players[0];
}

CASE(get__returns_hostile_bytes__is_refused_naming_the_rank)
{
	static const struct {
		enum trouble trouble;
		int code;
		const char *with;
	} cases[] = { { SHORT, SLUICE_EWIRE, "too short" },
		      { EMPTY, SLUICE_EWIRE, "the 0 bytes" },
		      { LONG, SLUICE_EWIRE, "longer than any record" },
		      { TORN, SLUICE_EWIRE, "checksum" },
		      { FAILS, SLUICE_EBOOT, "bootstrap function get()" } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct player p = troubled(cases[i].trouble);

		fails(&p, cases[i].code, cases[i].with, "x.card.1");
		teardown(state);
		setup(state);
	}
}

CASE(put__fails__is_named_with_its_code)
{
	struct player p = { .callbacks = callbacks(0, 1) };

	store->put = FAILS;
	play(&p, 1);
	fails(&p, SLUICE_EBOOT, "bootstrap function put()", "returned 42 on rank 0");
}

CASE(fence__fails__is_named_with_its_code)
{
	struct player p = { .callbacks = callbacks(0, 1) };

	store->fence = FAILS;
	p.callbacks.fence = fence;
	play(&p, 1);
	fails(&p, SLUICE_EBOOT, "bootstrap function fence()", "returned 9 on rank 0");
}

CASE(missing_ranks__are_named_after_the_timeout)
{
	for (int fenced = 0; fenced < 2; fenced++) {
		struct player players[2] = { { .callbacks = callbacks(0, 4) },
					     { .callbacks = callbacks(2, 4) } };

		for (int p = 0; p < 2; p++) {
			players[p].timeout_ms = SHORT_MS;
			players[p].callbacks.fence = fenced ? fence : NULL;
		}
		play(players, 2);
		fails(&players[0], SLUICE_ETIMEDOUT, "rank 0 waited", "missing: rank 1, rank 3:");
		fails(&players[1], SLUICE_ETIMEDOUT, "rank 2 waited", "missing: rank 1, rank 3:");
		assert_non_null(strstr(players[0].error, fenced ? "fence()" : "get()"));
		teardown(state);
		setup(state);
	}
}

CASE(ranks_that_disagree_about_the_size__are_told_at_once)
{
	struct player players[2] = { { .callbacks = callbacks(0, 2) },
				     { .callbacks = callbacks(1, 4) } };

	play(players, 2);
	fails(&players[0], SLUICE_EPEER, "rank 1 started with 4 ranks", "rank 0");
	fails(&players[1], SLUICE_EPEER, "rank 0 started with 2 ranks", "rank 1");
}

CASE(two_processes_with_one_rank__are_told)
{
	struct player first = { .callbacks = callbacks(1, 2), .timeout_ms = SHORT_MS };
	struct player second = first;

	play(&first, 1); /* rank 0 is missing; the second process of rank 1 replaces the first one's
			    record */
	fails(&first, SLUICE_ETIMEDOUT, "missing: rank 0", "");
	first.timeout_ms = 4 * SHORT_MS;
	first.callbacks.name = second.callbacks.name = "again";
	pthread_create(&first.thread, NULL, exchange, &first);
	sleep_ms(SHORT_MS);
	second.callbacks.node = "elsewhere";
	play(&second, 1);
	pthread_join(first.thread, NULL);
	fails(&first, SLUICE_EPEER, "two processes of the job have rank 1 of 2", "again");
}

CASE(wrong_attributes__are_refused)
{
	struct player p[6];
	static const char *const says[] = { "size of sluice_bootstrap is set to 8",
					    "put of the bootstrap is NULL",
					    "get of the bootstrap is NULL",
					    "rank=2 and ranks=2",
					    "rank=-1 and ranks=2",
					    "rank=0 and ranks=0" };

	for (int i = 0; i < 6; i++)
		p[i] = (struct player){ .callbacks = callbacks(0, 2) };
	p[0].callbacks.size = 8;
	p[1].callbacks.put = NULL;
	p[2].callbacks.get = NULL;
	p[3].callbacks.rank = 2;
	p[4].callbacks.rank = -1;
	p[5].callbacks.ranks = 0;
	for (int i = 0; i < 6; i++) {
		play(&p[i], 1);
		fails(&p[i], SLUICE_EINVAL, says[i], "bootstrap");
	}
}

/* ---- many ranks ------------------------------------------------------------ */

enum { MANY = 512, SMALL_BYTES = 1024 };

static struct {
	uint8_t value[MANY][SMALL_BYTES];
	size_t bytes[MANY];
	int puts, gets, closed; /* closed: every get() fails */
} wide;

static int rank_of(const char *key)
{
	const int rank = atoi(strrchr(key, '.') + 1);

	assert_in_range(rank, 0, MANY - 1);
	return rank;
}

static int wide_put(void *context, const char *key, const void *value, size_t bytes)
{
	assert_in_range(bytes, 1, SMALL_BYTES);
	memcpy(wide.value[rank_of(key)], value, bytes);
	wide.bytes[rank_of(key)] = bytes;
	wide.puts++;
	return 0;
}

static int wide_get(void *context, const char *key, void *value, size_t room, size_t *bytes_out,
		    int timeout_ms)
{
	wide.gets++;
	if (wide.closed)
		return 5;
	*bytes_out = wide.bytes[rank_of(key)];
	memcpy(value, wide.value[rank_of(key)], *bytes_out);
	return 0;
}

static struct player play_one_of_many(int rank)
{
	struct player player = { .callbacks = callbacks(rank, MANY) };

	player.callbacks.put = wide_put;
	player.callbacks.get = wide_get;
	play(&player, 1);
	return player;
}

/* The store must serve no other calls, however many ranks there are. */
CASE(exchange__512_ranks__one_put_a_rank_and_one_get_for_each_record)
{
	struct player player;

	memset(&wide, 0, sizeof(wide));
	wide.closed = 1;
	for (int r = 0; r < MANY; r++)
		assert_int_equal(play_one_of_many(r).rc, SLUICE_EBOOT);
	wide.puts = wide.gets = wide.closed = 0;
	player = play_one_of_many(300);
	assert_string_equal(player.error, "");
	for (int r = 0; r < MANY; r++)
		assert_int_equal(player.records[r].payload[1], (uint8_t)r);
	free(player.records);
	assert_int_equal(wide.puts, 1);
	assert_int_equal(wide.gets, MANY);
}

/* One process of a real job: joins, sums, trains one step and leaves, without a launcher. */
static int rank_main(int rank)
{
	enum { N = 1000 };
	float params[N] = { 0 }, grad[N];
	double sum = rank + 1;
	const sluice_bootstrap bootstrap = callbacks(rank, RANKS);
	const sluice_job_attr attr = { .size = sizeof(attr), .bootstrap = &bootstrap };
	const sluice_model_attr model_attr = { .size = sizeof(model_attr),
					       .count = N,
					       .recipe = "up=all down=all update=sgd memory=none",
					       .lr = 1 };
	sluice_job *job = NULL;
	sluice_model *model = NULL;

	for (int i = 0; i < N; i++)
		grad[i] = (float)(rank + 1);
	if (sluice_init(&attr, &job) || sluice_rank(job) != rank || sluice_size(job) != RANKS ||
	    sluice_sum(job, &sum, 1) || sum != 1 + 2 + 3 + 4 ||
	    sluice_model_open(job, &model_attr, params, &model) || sluice_push(model, grad) ||
	    sluice_pull(model, params) || params[0] != -2.5f || params[N - 1] != -2.5f) {
		fprintf(stderr, "rank %d: sum %g, params %g: %s\n", rank, sum, (double)params[0],
			sluice_last_error());
		return 1;
	}
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

CASE(job__of_four_processes_without_a_launcher__trains)
{
	pid_t pids[RANKS];
	int status;

	/* Both variables are ignored, because the program has passed the ranks. */
	setenv("PMIX_NAMESPACE", "nobody.0", 1);
	setenv("SLURM_STEP_NUM_TASKS", "99", 1);
	for (int r = 0; r < RANKS; r++) {
		pids[r] = fork();
		if (!pids[r])
			_exit(rank_main(r));
	}
	for (int r = 0; r < RANKS; r++) {
		assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
		assert_int_equal(status, 0);
	}
	unsetenv("PMIX_NAMESPACE");
	unsetenv("SLURM_STEP_NUM_TASKS");
}

static int simulated(sluice_job *job, void *context)
{
	return 0;
}

CASE(simulated_rank__with_a_bootstrap__is_refused)
{
	const sluice_bootstrap bootstrap = callbacks(0, 1);
	const sluice_job_attr attr = { .size = sizeof(attr), .bootstrap = &bootstrap };

	assert_int_equal(sluice_simulate(&attr, 2, simulated, NULL), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "sluice_simulate()"));
}
