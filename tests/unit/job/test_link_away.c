/* SPDX-License-Identifier: BSD-3-Clause
 * A link over which nothing can be read: how the end of a process is told from a link that is down,
 * and when the rank is lost. Rank 0's transport holds back what it reads from rank 1. */
#include "ranks.h"
#include "libfabric_leaks.h"
#include "job/progress_token.h"
#include "cases.h"
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { MOST_HELD = 64 };

static const struct transport_ops *whole;
static struct transfer held[MOST_HELD];
static atomic_int n_held, moves, moving, port_down;

static int post_or_hold(struct endpoint *e, const struct transfer *x)
{
	if (x->kind != TRANSFER_GET)
		return whole->post(e, x);
	CHECK(n_held < MOST_HELD);
	held[n_held++] = *x;
	return 0;
}

/* Polls without reporting ended processes, so that only traffic on the link shows that a rank
 * lives. */
static int poll_without_ends(struct transport *t, struct event *events, int n)
{
	int kept = 0;
	n = whole->poll(t, events, n);
	for (int i = 0; i < n; i++)
		if (events[i].kind != EVENT_GONE)
			events[kept++] = events[i];
	return kept;
}

static uint64_t count_moves(struct endpoint *e)
{
	const int more = moving;

	return (uint64_t)(atomic_fetch_add(&moves, more) + more);
}

static int is_down(struct endpoint *e)
{
	return port_down;
}

static struct transport *link_of(sluice_job *job)
{
	return job->peers[1].endpoint->transport;
}

static void take_away(sluice_job *job)
{
	static struct transport_ops ops;
	progress_take(job);
	whole = link_of(job)->ops;
	ops = *whole;
	ops.post = post_or_hold;
	ops.poll = poll_without_ends;
	ops.moved = count_moves;
	ops.away = is_down;
	ops.copies_at_post = 0;
	link_of(job)->ops = &ops;
	progress_release(job);
}

static void give_back(sluice_job *job)
{
	static struct transport_ops ops;
	progress_take(job);
	ops = *whole;
	ops.moved = count_moves;
	moves++;
	for (int i = 0; i < n_held; i++)
		CHECK_OK(whole->post(job->peers[1].endpoint, &held[i]));
	link_of(job)->ops = &ops;
	progress_release(job);
}

static int lost_after_ms(void)
{
	return slowness() > 1 ? 5000 : 1000;
}

static sluice_job *join(const char *control)
{
	const sluice_job_attr attr = { .size = sizeof(attr), .lost_after_ms = lost_after_ms() };
	setenv("SLUICE_CONTROL_INTERFACE", control, 1);
	/* Ranks only have keys if they use a network. These two use shm. */
	setenv("SLUICE_TRANSPORT", "self,shm,ofi", 1);
	sluice_job *job = rank_join(&attr);
	log_capture();
	return job;
}

static void wait_for_line(const char *a, const char *b)
{
	for (int waited = 0; !log_saw(a, b, NULL, NULL); waited++) {
		CHECK(waited < 60000);
		sleep_ms(1);
	}
}

/* Waits until rank 1, whose link is down, is lost for this reason. */
static int lost_by(sluice_job *job, const char *reason)
{
	int rc = 0;
	while (!rc)
		rc = sluice_barrier(job);
	CHECK(rc == SLUICE_EPEER);
	CHECK(error_says("rank 1 (node n1) is lost", reason));
	sluice_finalize(&job);
	return 0;
}

/* Rank 1 is idle until rank 0 is done. */
static int be_idle(sluice_job *job)
{
	int rc = 0;
	while (!rc) {
		sleep_ms(1);
		progress_take(job);
		rc = job->failure.code;
		progress_release(job);
	}
	sluice_finalize(&job);
	return 0;
}

TEST_IN_RANKS(link__away_while_the_process_answers__is_waited_for, 2)
{
	sluice_job *job = join("lo");
	if (rank == 0) {
		take_away(job);
		wait_for_line("rank 1 (node n1)", "answers over the control network");
		sleep_ms(2 * lost_after_ms());
		give_back(job);
		wait_for_line("the link to rank 1 (node n1)", "works again");
	}
	CHECK_OK(sluice_barrier(job));
	sluice_finalize(&job);
	return 0;
}

TEST_IN_RANKS(link__away_for_the_limit_of_a_link__loses_its_rank, 2)
{
	char limit[32];
	snprintf(limit, sizeof(limit), "%dms", 2 * lost_after_ms());
	setenv("SLUICE_LINK_LOST_AFTER", limit, 1);
	sluice_job *job = join("lo");
	if (rank == 1)
		return be_idle(job);
	take_away(job);
	wait_for_line("rank 1 (node n1) is lost", "SLUICE_LINK_LOST_AFTER");
	return lost_by(job, "its process answers over the control network");
}

TEST_IN_RANKS(link__away_and_no_control_network__loses_its_rank, 2)
{
	sluice_job *job = join("none");
	if (rank == 1)
		return be_idle(job);
	take_away(job);
	return lost_by(job, "it has never answered over a control network");
}

TEST_IN_RANKS(port__of_this_rank_is_down__nobody_is_blamed, 2)
{
	sluice_job *job = join("none");
	if (rank == 0) {
		port_down = 1;
		take_away(job);
		wait_for_line("rank 1 (node n1)", "own port is down");
		sleep_ms(2 * lost_after_ms());
		give_back(job);
	}
	CHECK_OK(sluice_barrier(job));
	sluice_finalize(&job);
	return 0;
}

/* A heartbeat is queued after other bytes for three times as long as a process may be silent. */
TEST_IN_RANKS(link__busy_for_long__nobody_is_lost, 2)
{
	sluice_job *job = join("none");
	if (rank == 0) {
		moving = 1;
		take_away(job);
		sleep_ms(3 * lost_after_ms());
		give_back(job);
	}
	CHECK_OK(sluice_barrier(job));
	sluice_finalize(&job);
	return 0;
}

TEST_IN_RANKS(link__moves_but_answers_no_read__loses_its_rank, 2)
{
	char limit[32];
	snprintf(limit, sizeof(limit), "%dms", 2 * lost_after_ms());
	setenv("SLUICE_LINK_LOST_AFTER", limit, 1);
	sluice_job *job = join("none");
	if (rank == 1)
		return be_idle(job);
	moving = 1;
	take_away(job);
	return lost_by(job, "could not be read");
}

static int renewals;

static void renew(struct endpoint *e, const char *why)
{
	renewals++;
	moving = 0;
	moves++;
	for (int i = 0; i < n_held; i++)
		CHECK_OK(whole->post(e, &held[i]));
	n_held = 0;
}

/* The READs that hang are answered over the new connection. */
TEST_IN_RANKS(link__moves_but_answers_no_read__is_made_again, 2)
{
	char limit[32];
	snprintf(limit, sizeof(limit), "%dms", 2 * lost_after_ms());
	setenv("SLUICE_LINK_LOST_AFTER", limit, 1);
	sluice_job *job = join("none");
	if (rank == 0) {
		moving = 1;
		take_away(job);
		progress_take(job);
		static struct transport_ops ops;
		ops = *link_of(job)->ops;
		ops.renew = renew;
		link_of(job)->ops = &ops;
		progress_release(job);
		wait_for_line("the memory of rank 1 (node n1) could not be read",
			      "making the connection again");
		give_back(job);
	}
	CHECK_OK(sluice_barrier(job));
	CHECK(renewals == (rank == 0));
	sluice_finalize(&job);
	return 0;
}

/* ---- the process ends or stops meanwhile -------------------------------------------- */

struct victim {
	int signal;
	const char *reason;
	atomic_int away, done;
};

static int lose_while_away(int rank, void *argument)
{
	struct victim *v = argument;
	sluice_job *job = join("lo");
	if (rank == 1) {
		while (!v->away)
			sleep_ms(1);
		raise(v->signal);
		return be_idle(job);
	}
	take_away(job);
	wait_for_line("rank 1 (node n1)", "answers over the control network");
	v->away = 1;
	const int rc = lost_by(job, v->reason);
	v->done = 1;
	return rc;
}

static void end_the_victim(const pid_t *pids, void *argument)
{
	struct victim *v = argument;
	for (int waited = 0; waited < 60000 && !v->done; waited++)
		sleep_ms(1);
	kill(pids[1], SIGKILL);
}

static void lose(int signal, const char *reason)
{
	struct victim *v = shared_memory(sizeof(*v));
	int status[2];
	v->signal = signal;
	v->reason = reason;
	run_ranks_status(2, lose_while_away, v, end_the_victim, 60000, status);
	assert_int_equal(status[0], 0);
}

TEST(link__away_and_the_process_ends__loses_its_rank_by_the_refusal)
{
	lose(SIGKILL, "its port in the control network is closed");
}

TEST(link__away_and_the_process_stops__loses_its_rank_by_silence)
{
	lose(SIGSTOP, "it does not answer over the control network any more");
}
