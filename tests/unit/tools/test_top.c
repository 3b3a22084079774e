/* SPDX-License-Identifier: BSD-3-Clause
 * The page that a rank writes, and its reader in sluice-top: what a page shows, that no block is
 * torn, that a reader gives up in the end, that pages of other programs are refused, and that a
 * page arrives from another node as it is or not at all. */
#include "job/state.h"
#include "tools/top/relay.h"
#include "tools/top/show.h"
#include "tools/top/waits.h"
#include "ranks.h"
#include "cases.h"
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { TRIES_MOST = 3000 };
static const char recipe[] = "up=topk(0.1) down=topk(0.1)";
static float params[1000], gradient[1000];

/* ---- what a page shows ---------------------------------------------------------------- */

static int memfd_fails;
int __real_region_memfd(const char *label, unsigned flags);
int __wrap_region_memfd(const char *label, unsigned flags);
int __wrap_region_memfd(const char *label, unsigned flags)
{
	if (!memfd_fails || strncmp(label, PAGE_FILE, strlen(PAGE_FILE)) != 0)
		return __real_region_memfd(label, flags);
	errno = EPERM;
	return -1;
}

/* Finds the page of a process. Returns 1, or 0 if there is none. */
static int find(pid_t pid, struct seen_rank *out)
{
	struct seen seen;
	int found = 0;

	CHECK(!seen_find(NULL, &seen));
	for (size_t i = 0; i < seen.n; i++)
		if (seen.ranks[i].pid == pid) {
			*out = seen.ranks[i];
			found++;
		}
	seen_free(&seen);
	CHECK(found <= 1);
	return found;
}

TEST_IN_JOB(model__steps__are_shown_until_it_closes, 1)
{
	static struct seen_rank r;
	sluice_model *model = OPEN(job, params, .count = 1000, .recipe = recipe, .lr = 0.1f);
	uint64_t steps = 0;

	CHECK(find(getpid(), &r) && r.who.rank == 0 && r.who.size == 1 && !r.busy);
	CHECK(!strcmp(r.who.node, "n1") && !strcmp(r.who.library, sluice_version(NULL)));
	CHECK(r.models[0].count == 1000 && strstr(r.models[0].recipe, "topk(0.1)"));
	CHECK(r.numbers[0].ns == 0);
	/* a step is left out if the progress thread holds the token */
	while (r.numbers[0].stats.steps < 5 && steps++ < TRIES_MOST) {
		gradient[steps % 1000] += 1;
		CHECK_STEP(model, gradient, params);
		CHECK(find(getpid(), &r));
		CHECK(r.numbers[0].stats.steps <= steps);
	}
	CHECK(r.numbers[0].stats.steps >= 5 && r.numbers[0].stats.own_pushed_bytes > 0);
	CHECK(r.numbers[0].stats.compress_ns > 0 && r.numbers[0].stats.density_up > 0.09);
	sluice_model_close(&model);
	CHECK(find(getpid(), &r) && !r.models[0].count && !r.numbers[0].ns);
}

/* More models than entries: the last ones are not shown, and closing them changes nothing. */
TEST_IN_JOB(models__more_than_entries__work_unseen, 1)
{
	static struct seen_rank r;
	sluice_model *models[PAGE_MODELS + 2];

	for (int i = 0; i < PAGE_MODELS + 2; i++)
		models[i] = OPEN(job, params, .count = 1000, .recipe = recipe, .lr = 0.1f);
	for (int i = PAGE_MODELS + 1; i >= PAGE_MODELS; i--) {
		CHECK_STEP(models[i], gradient, params);
		sluice_model_close(&models[i]);
	}
	CHECK(find(getpid(), &r));
	for (int i = 0; i < PAGE_MODELS; i++) {
		CHECK(r.models[i].count == 1000);
		sluice_model_close(&models[i]);
	}
}

/* Rank 1 makes its step only when rank 0 is seen to wait for it. */
TEST_IN_JOB(wait__for_another_rank__is_shown_with_that_rank, 2)
{
	static struct seen_rank r;
	sluice_model *model = OPEN(job, params, .count = 1000, .recipe = recipe, .lr = 0.1f,
				   .shards = 1);
	double pids[2] = { rank ? 0 : (double)getpid(), 0 };
	int seen = rank == 0;

	CHECK_OK(sluice_sum(job, pids, 1));
	for (int tries = 0; !seen && tries < TRIES_MOST; tries++) {
		seen = find((pid_t)pids[0], &r) && awaited_rank(&r, 0) == 1;
		sleep_ms(seen ? 0 : 10);
	}
	CHECK(seen);
	CHECK_STEP(model, gradient, params);
	sluice_model_close(&model);
}

TEST_IN_JOB(log__warnings__are_shown_the_newest_last, 1)
{
	static struct seen_rank r;

	log_capture();
	for (int i = 0; i < PAGE_NOTES + 3; i++)
		sluice_model_open(job, NULL, params, NULL); /* refused with an error */
	CHECK(find(getpid(), &r));
	for (int i = 0; i < PAGE_NOTES; i++)
		CHECK(r.notes[i].number == r.notes[0].number + (uint64_t)i &&
		      strstr(r.notes[i].text, "sluice_model_open"));
}

TEST_IN_RANKS(page__that_cannot_be_made__is_missed_only_by_the_viewer, 1)
{
	static struct seen_rank r;
	sluice_job *job = NULL;

	setenv("SLUICE_LOG", "info", 1);
	log_capture();
	memfd_fails = 1;
	job = rank_join(NULL);
	CHECK(log_saw("sluice-top cannot show this rank", "memfd_create", NULL, NULL));
	CHECK(!find(getpid(), &r));
	sluice_model *model = OPEN(job, params, .count = 1000, .recipe = recipe, .lr = 0.1f);
	CHECK_STEP(model, gradient, params);
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

TEST_IN_RANKS(page__with_SLUICE_TOP_no__does_not_exist, 1)
{
	static struct seen_rank r;
	sluice_job *job = NULL;

	setenv("SLUICE_TOP", "no", 1);
	job = rank_join(NULL);
	CHECK(!find(getpid(), &r));
	sluice_finalize(&job);
	setenv("SLUICE_TOP", "yes", 1);
	return 0;
}

/* ---- torn blocks ------------------------------------------------------------------------- */

enum { WRITES = 20000 };
static atomic_int writers;

static void *write_waits(void *job)
{
	char text[PAGE_TEXT_BYTES];

	for (unsigned i = 1; i <= WRITES; i++) {
		memset(text, 'a' + (int)(i % 26), sizeof(text) - 1);
		text[sizeof(text) - 1] = '\0';
		page_show_wait(job, i, text);
	}
	atomic_fetch_sub(&writers, 1);
	return NULL;
}

TEST_IN_JOB(block__written_by_two_threads__is_never_torn, 1)
{
	static struct seen_rank r;
	pthread_t threads[2];
	int copies = 0;

	atomic_store(&writers, 2);
	for (int t = 0; t < 2; t++)
		CHECK(!pthread_create(&threads[t], NULL, write_waits, job));
	while (atomic_load(&writers) || !copies) {
		CHECK(!seen_copy(job->page.page, sizeof(*job->page.page), &r));
		if (r.busy || !r.wait.since_ns)
			continue;
		copies++;
		CHECK(strlen(r.wait.text) == PAGE_TEXT_BYTES - 1);
		CHECK(strspn(r.wait.text, (char[]){ (char)('a' + r.wait.since_ns % 26), '\0' }) ==
		      PAGE_TEXT_BYTES - 1);
	}
	for (int t = 0; t < 2; t++)
		pthread_join(threads[t], NULL);
}

/* ---- pages of other programs ---------------------------------------------------------------- */

static struct rank_page page;
static struct seen_rank copied;

#define STORE(block, contents) memcpy((void *)(block)->words, contents, sizeof(*(contents)))

static struct page_who make_page(void)
{
	const struct page_who who = { .rank = 2, .size = 4, .servers = 1, .pid = 7, .node = "n1" };

	memset((void *)&page, 0, sizeof(page));
	page.head = (struct page_head){ PAGE_MAGIC, PAGE_VERSION, sizeof(page) };
	STORE(&page.who, &who);
	return who;
}

static void refused(const char *why)
{
	const char *said = seen_copy(&page, sizeof(page), &copied);

	assert_non_null(said);
	assert_non_null(strstr(said, why));
}

TEST(page__well_formed__is_copied)
{
	make_page();
	assert_null(seen_copy(&page, sizeof(page), &copied));
	assert_int_equal(copied.who.rank, 2);
}

TEST(page__of_another_size_or_version__is_refused)
{
	make_page();
	for (size_t n = 0; n < sizeof(page); n += n < 64 ? 1 : 997) {
		void *cut = malloc(n + !n);

		assert_non_null(cut);
		memcpy(cut, (void *)&page, n);
		assert_non_null(seen_copy(cut, n, &copied));
		free(cut);
	}
	page.head.version++;
	refused("another version");
	make_page();
	page.head.bytes += 8;
	refused("another version");
	make_page();
	page.head.magic = 0;
	refused("not a page");
}

TEST(page__with_impossible_numbers__is_refused)
{
	struct page_losses losses = { .count = 5 };
	struct page_model model = { .count = UINT64_MAX };
	struct page_who who = make_page();

	for (int i = 0; i < 6; i++) {
		struct page_who bad = who;

		bad.rank = i == 0 ? 4 : i == 1 ? -1 : 2;
		bad.size = i == 2 ? 0 : i == 3 ? INT32_MAX : 4;
		bad.servers = i == 4 ? 4 : 1;
		bad.pid = i == 5 ? 0 : 7;
		STORE(&page.who, &bad);
		refused("impossible");
	}
	make_page();
	STORE(&page.losses, &losses);
	refused("more ranks are lost");
	losses = (struct page_losses){ .count = 1, .at[0].rank = 4 };
	STORE(&page.losses, &losses);
	refused("lost rank does not exist");
	make_page();
	STORE(&page.models[3], &model);
	refused("too many parameters");
}

TEST(page__with_texts_that_do_not_end__is_refused)
{
	struct page_losses losses = { .count = 1 };
	struct page_who who = make_page();
	struct page_model model = { .count = 1 };
	struct page_wait wait = { .since_ns = 1 };
	struct page_note note = { .number = 1 };

	memset(who.node, 'x', sizeof(who.node));
	STORE(&page.who, &who);
	refused("about the rank");
	make_page();
	memset(losses.at[0].why, 'x', sizeof(losses.at[0].why));
	STORE(&page.losses, &losses);
	refused("reason of a loss");
	make_page();
	memset(model.recipe, 'x', sizeof(model.recipe));
	STORE(&page.models[PAGE_MODELS - 1], &model);
	refused("recipe does not end");
	make_page();
	memset(wait.text, 'x', sizeof(wait.text));
	STORE(&page.wait, &wait);
	refused("text of a wait");
	make_page();
	memset(note.text, 'x', sizeof(note.text));
	STORE(&page.notes[0], &note);
	refused("line of the log");
}

TEST(page__with_escapes_and_odd_values__prints_neither)
{
	struct page_who who = make_page();
	struct page_numbers numbers = { .ns = 1,
					.stats = { .density_up = 1e300, .residual_norm = -1 } };
	const struct page_model model = { .count = 1, .recipe = "\033[2Jup\377" };
	struct seen seen = { .ranks = &copied, .n = 1 };
	const struct view view = { .before = &seen, .width = 120, .rank = 2 };
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	assert_non_null(to);
	strcpy(who.node, "\033]0;x\a");
	STORE(&page.who, &who);
	STORE(&page.models[0], &model);
	STORE(&page.numbers[0], &numbers);
	assert_null(seen_copy(&page, sizeof(page), &copied));
	assert_string_equal(copied.who.node, "?]0;x?");
	assert_string_equal(copied.models[0].recipe, "?[2Jup?");
	assert_true(isnan(copied.numbers[0].stats.density_up));
	show_json(&seen, to);
	show_screen(&seen, &view, to);
	assert_int_equal(fclose(to), 0);
	assert_null(memchr(text, '\033', bytes));
	assert_non_null(strstr(text, "\"density_up\": null"));
	free(text);
}

TEST(screen__of_a_lost_rank__says_so_and_names_the_other_nodes)
{
	struct page_who who = make_page();
	const struct page_model model = { .count = 9, .shards = 1, .recipe = "up=all" };
	const struct page_losses losses = { .count = 1, .at = { { .rank = 2, .why = "gone" } } };
	struct page_numbers numbers = { .ns = 1, .version = 10 };
	struct seen_rank earlier = { 0 };
	struct seen seen = { .ranks = &copied, .n = 1 }, before = { .ranks = &earlier, .n = 1 };
	const struct view view = { .before = &before, .width = 100, .rank = -1 };
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	assert_non_null(to);
	strcpy(who.job, "17");
	STORE(&page.who, &who);
	STORE(&page.models[0], &model);
	STORE(&page.losses, &losses);
	STORE(&page.numbers[0], &numbers);
	assert_null(seen_copy(&page, sizeof(page), &earlier));
	numbers = (struct page_numbers){ .ns = 1000000001, .version = 2010, .stats.steps = 2000 };
	STORE(&page.numbers[0], &numbers);
	assert_null(seen_copy(&page, sizeof(page), &copied));
	copied.ns = earlier.ns + 1000000000;
	show_screen(&seen, &view, to);
	assert_int_equal(fclose(to), 0);
	assert_non_null(strstr(text, "in 1 shard, up=all"));
	assert_non_null(strstr(text, " 2000 "));
	assert_non_null(strstr(text, " lost\n"));
	assert_non_null(strstr(text, "ranks of all nodes: sluice-top --nodes --job 17\n"));
	free(text);
}

TEST(screen__of_two_jobs_without_slurm__does_not_join_them)
{
	struct page_who who = make_page();
	struct seen_rank two[2];
	struct seen seen = { .ranks = two, .n = 2 };
	const struct view view = { .width = 100, .rank = -1 };
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	assert_non_null(to);
	for (size_t i = 0; i < 2; i++) {
		who.meeting = 7 + i;
		STORE(&page.who, &who);
		assert_null(seen_copy(&page, sizeof(page), &two[i]));
	}
	seen_sort(&seen);
	assert_false(seen_together(&two[0], &two[1]));
	show_screen(&seen, &view, to);
	assert_int_equal(fclose(to), 0);
	assert_null(strstr(text, ": 2 of "));
	assert_non_null(strstr(strstr(text, ": 1 of ") + 1, ": 1 of "));
	free(text);
}

TEST(block__that_stays_odd__is_given_up)
{
	make_page();
	page.wait.sequence = 1;
	assert_null(seen_copy(&page, sizeof(page), &copied));
	assert_int_equal(copied.busy, 1);
	make_page();
	page.who.sequence = 3;
	refused("being written");
}

TEST(wait__texts__name_the_ranks)
{
	struct page_wait wait = { .since_ns = 1 };
	static const struct {
		const char *text;
		int first, second;
	} waits[] = {
		{ "", -1, -1 },
		{ "step 7: the new version of shard 0 of rank 3 (node n2)", 3, -1 },
		{ "step 7: the new version of shard 0 of rank 0 (node n1); shard 0 here waits for "
		  "the push of step 7 from rank 1 (node n1), rank 3 (node n2)",
		  1, 3 },
		{ "rank 1 of group 2 (rank 3 of the job, node n2)", 3, -1 },
		{ "rank 99999999999999999999", -1, -1 },
		{ "rank", -1, -1 },
	};

	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		make_page();
		snprintf(wait.text, sizeof(wait.text), "%s", waits[i].text);
		STORE(&page.wait, &wait);
		assert_null(seen_copy(&page, sizeof(page), &copied));
		assert_int_equal(awaited_rank(&copied, 0), waits[i].first);
		assert_int_equal(awaited_rank(&copied, 1), waits[i].second);
	}
}

/* ---- pages from other nodes ------------------------------------------------------------------ */

/* Prints a look at two ranks, of which the second has a model. Sets `looked` to the copies. */
static char *relayed(struct seen_rank looked[2])
{
	const struct page_numbers numbers = { .ns = 9, .stats.density_up = 0.5 };
	const struct page_model model = { .count = 5, .recipe = "up=topk(0.1)" };
	const struct page_note note = { .number = PAGE_NOTES + 2, .text = "slow" };
	const struct seen seen = { .ranks = looked, .n = 2 };
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	assert_non_null(to);
	for (int i = 0; i < 2; i++) {
		struct page_who who = make_page();

		who.rank = i;
		STORE(&page.who, &who);
		if (i) {
			STORE(&page.models[PAGE_MODELS - 1], &model);
			STORE(&page.numbers[PAGE_MODELS - 1], &numbers);
			STORE(&page.notes[2], &note);
		}
		assert_null(seen_copy(&page, sizeof(page), &looked[i]));
		looked[i].pid = 70 + i;
		looked[i].file = (ino_t)(7 + i);
		looked[i].state = 'S';
	}
	assert_int_equal(relay_print(&seen, 3, to), 0);
	assert_int_equal(fclose(to), 0);
	return text;
}

/* Gives the lines of a text to a relay. Returns how many of them it has not understood. */
static int take_all(struct relay *relay, const char *text)
{
	char line[RELAY_LINE];
	int odd = 0;

	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		assert_true(n < sizeof(line));
		memcpy(line, text, n);
		line[n] = '\0';
		const int rc = relay_take(relay, line);

		assert_true(rc >= 0);
		odd += rc;
	}
	return odd;
}

TEST(look__of_another_node__arrives_as_it_was)
{
	static struct seen_rank looked[2];
	struct relay relay = { 0 };
	char *text = relayed(looked);

	for (int times = 0; times < 2; times++) {
		assert_int_equal(take_all(&relay, text), 0);
		assert_int_equal(relay.nodes, 3);
		assert_int_equal(relay.ranks.n, 2);
		assert_memory_equal(relay.ranks.ranks, looked, sizeof(looked));
	}
	assert_int_equal(relay_take(&relay, "n 3"), 0);
	assert_int_equal(relay.ranks.n, 0);
	relay_free(&relay);
	free(text);
}

TEST(look__with_a_changed_byte__lacks_that_rank)
{
	static struct seen_rank looked[2];
	char *text = relayed(looked);
	const size_t first = (size_t)(strstr(text, "\nr ") - text);

	for (size_t i = 0; i < first; i++) {
		struct relay relay = { 0 };
		const char was = text[i];

		text[i] = was == '1' ? '2' : '1';
		take_all(&relay, text);
		assert_int_equal(relay.ranks.n, 1);
		assert_memory_equal(relay.ranks.ranks, &looked[1], sizeof(looked[1]));
		relay_free(&relay);
		text[i] = was;
	}
	free(text);
}

TEST(lines__of_other_programs__are_not_understood)
{
	static const char *const lines[] = { "",       "w",           "w x",         "w 99999999 1",
					     "r 1 S",  "n",           "n 0",         "n x",
					     "w -1 1", "r 1 S 1 1 1", "srun: error", "w 0 1 q" };
	struct relay relay = { 0 };

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_int_equal(relay_take(&relay, lines[i]), 1);
	assert_int_equal(relay.nodes, 0);
	relay_free(&relay);
}
