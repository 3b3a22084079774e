/* SPDX-License-Identifier: BSD-3-Clause
 * Jobs whose ranks meet over libfabric: on loopback, and in separate network namespaces, with no
 * other connection. Each ends with the same bits as over shared memory. */
#include "ranks.h"
#include "libfabric_leaks.h"
#include "sluice_region.h"
#include "rdma/transport.h"
#include "thinned.h"
#include "cases.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, COUNT = 300000, STEPS = 6 };

struct run {
	const char *recipe, *transport, *interface;
	int apart; /* each rank has its own namespace */
	uint64_t digest, shm_bytes, ofi_bytes;
};

static const char *const recipes[] = {
	"up=topk(0.01) down=topk(0.05)",
	"up=all down=all",
	"up=cyclic(0.01) down=all",
	"up=topk(0.05),uniform(4) down=topk(0.1)",
};
enum { RECIPES = sizeof(recipes) / sizeof(recipes[0]) };

/* ---- namespaces ------------------------------------------------------------------ */

static void name_of(int rank, char name[32], pid_t pid)
{
	snprintf(name, 32, "sluice%d-%d", (int)pid, rank);
}

static int run_quietly(const char *command)
{
	const int status = system(command); /* NOLINT: only constant words and numbers */

	return status == 0 ? 0 : -1;
}

static void remove_namespaces(void)
{
	char command[128], name[32];

	for (int r = 0; r < RANKS; r++) {
		name_of(r, name, getpid());
		snprintf(command, sizeof(command), "ip netns del %s 2>/dev/null", name);
		run_quietly(command);
	}
}

/* Makes two networks with one cable between them. Returns 0, or -1 if that is impossible here. */
static int make_namespaces(void)
{
	char command[512], a[32], b[32];

	name_of(0, a, getpid());
	name_of(1, b, getpid());
	snprintf(
		command, sizeof(command),
		"exec 2>/dev/null; ip netns add %s && ip netns add %s && "
		"ip link add v0 netns %s type veth peer name v0 netns %s && "
		"ip -n %s addr add 10.79.0.1/24 dev v0 && ip -n %s addr add 10.79.0.2/24 dev v0 && "
		"ip -n %s link set v0 up && ip -n %s link set v0 up",
		a, b, a, b, a, b, a, b);
	if (run_quietly(command))
		return -1;
	/* The kernel needs a while to bring the link up, and libfabric uses no interface before. */
	snprintf(
		command, sizeof(command),
		"for i in $(seq 200); do ip -n %s -o link show v0 | grep -q 'state UP' && "
		"ip -n %s -o link show v0 | grep -q 'state UP' && exit 0; sleep 0.05; done; exit 1",
		a, b);
	return run_quietly(command);
}

static int tear_down(void **state)
{
	remove_namespaces();
	return 0;
}

static void enter_namespace(int rank)
{
	char path[64] = "/run/netns/";
	int fd;

	name_of(rank, path + strlen(path), getppid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(setns(fd, CLONE_NEWNET) == 0);
	close(fd);
}

/* ---- training -------------------------------------------------------------------- */

static uint64_t bytes_over(sluice_job *job, const char *name)
{
	sluice_transport_stats all[8] = { { .size = sizeof(all[0]) } };
	size_t n = 0;

	CHECK_OK(sluice_transports(job, all, 8, &n));
	for (size_t i = 0; i < n; i++)
		if (!strcmp(all[i].name, name)) {
			CHECK(all[i].by_polling == !strcmp(name, "ofi"));
			return all[i].put_bytes + all[i].get_bytes;
		}
	return 0;
}

static int train(int rank, void *argument)
{
	static float params[COUNT], grad[COUNT];
	struct run *run = argument;
	sluice_job *job;

	if (run->apart)
		enter_namespace(rank);
	setenv("SLUICE_TRANSPORT", run->transport, 1);
	setenv("SLUICE_INTERFACE", run->interface, 1);
	job = rank_join(NULL);
	for (int i = 0; i < COUNT; i++)
		params[i] = noise(1, 0, 0, (uint64_t)i);
	sluice_model *model = OPEN(job, params, .count = COUNT, .recipe = run->recipe, .lr = 0.05f);
	for (uint64_t step = 0; step < STEPS; step++) {
		if (thinned(step + 1, STEPS / 2))
			continue;
		for (int i = 0; i < COUNT; i++)
			grad[i] = params[i] + 0.1f * noise(2, step, (uint64_t)rank, (uint64_t)i);
		CHECK_STEP(model, grad, params);
	}
	uint64_t digest = check_same(job, params, sizeof(params));
	if (rank == 0) {
		run->digest = digest;
		run->shm_bytes = bytes_over(job, "shm");
		run->ofi_bytes = bytes_over(job, "ofi");
	}
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static struct run *run_with(const char *recipe, const char *transport, const char *interface,
			    int apart)
{
	struct run *run = shared_memory(sizeof(*run));

	*run = (struct run){
		.recipe = recipe, .transport = transport, .interface = interface, .apart = apart
	};
	run_ranks(RANKS, train, run);
	return run;
}

static void compare(const char *interface, int apart)
{
	for (int i = 0; i < RECIPES; i++) {
		const struct run *shm, *ofi;

		if (thinned((size_t)(i + apart), 2))
			continue;
		shm = run_with(recipes[i], "shm", "", 0);
		ofi = run_with(recipes[i], "ofi", interface, apart);

		assert_true(shm->shm_bytes > 0 && shm->ofi_bytes == 0);
		assert_true(ofi->ofi_bytes > 0 && ofi->shm_bytes == 0);
		assert_true(shm->digest == ofi->digest);
	}
}

TEST(train__over_libfabric_on_loopback__same_bits_as_over_shm)
{
	compare("lo", 0);
}

TEST_WITH(train__between_network_namespaces__same_bits_as_over_shm, NULL, tear_down)
{
	if (geteuid() || make_namespaces()) {
		print_message("skipped: no network namespaces can be made here (root, iproute2)\n");
		skip();
	}
	compare("", 1);
}

/* ---- without SLUICE_TRANSPORT --------------------------------------------------------- */

/* Four ranks on two nodes, or on one node, where all four share a kernel. */
enum { NODES_RANKS = 4 };

static int libfabric_is_loaded(void)
{
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "r");
	int found = 0;

	CHECK(maps != NULL);
	while (fgets(line, sizeof(line), maps))
		found |= strstr(line, "libfabric.so") != NULL;
	fclose(maps);
	return found;
}

static void be_default(void)
{
	unsetenv("SLUICE_TRANSPORT");
	unsetenv("SLUICE_PROVIDER");
	setenv("SLUICE_INTERFACE", "lo", 1);
	log_capture();
}

static const char tcp_is_slow[] = "reaches others over TCP";

TEST_IN_RANKS(init__default_on_two_nodes__shm_within_and_ofi_between_them, NODES_RANKS)
{
	sluice_job *job;
	uint8_t bytes[1000] = { 1 };
	sluice_region *region = NULL;

	be_default();
	nodes_have_kernels = 1;
	job = rank_join(NULL);
	CHECK(libfabric_is_loaded());
	/* Rank 0 logs it for all. */
	CHECK(log_saw(tcp_is_slow, "SLUICE_PROVIDER=", NULL, NULL) == (rank == 0));
	CHECK_OK(sluice_region_open(job, sizeof(bytes), &region));
	const uint64_t shm = bytes_over(job, "shm"), ofi = bytes_over(job, "ofi");
	CHECK_OK(sluice_region_put(region, rank ^ 1, 0, bytes, sizeof(bytes), 0));
	CHECK(bytes_over(job, "shm") - shm >= sizeof(bytes));
	CHECK_OK(sluice_region_put(region, rank ^ 2, 0, bytes, sizeof(bytes), 0));
	CHECK(bytes_over(job, "ofi") - ofi >= sizeof(bytes));
	CHECK_OK(sluice_barrier(job));
	sluice_region_close(&region);
	sluice_finalize(&job);
	return 0;
}

TEST_IN_RANKS(init__default_on_one_node__libfabric_is_not_loaded, NODES_RANKS)
{
	sluice_transport_stats all[8] = { { .size = sizeof(all[0]) } };
	sluice_job *job;
	size_t n = 0;

	be_default();
	job = rank_join(NULL);
	CHECK(!libfabric_is_loaded());
	CHECK_OK(sluice_transports(job, all, 8, &n));
	for (size_t i = 0; i < n; i++)
		CHECK(strcmp(all[i].name, "ofi") != 0);
	CHECK(!log_saw(tcp_is_slow, NULL, NULL, NULL));
	sluice_finalize(&job);
	return 0;
}

/* Rank 2 has no provider, while rank 3 on the same node would have one. */
TEST_IN_RANKS(init__one_rank_has_no_provider__all_say_so, NODES_RANKS)
{
	const sluice_job_attr attr = { .size = sizeof(attr), .wait_timeout_ms = 60000 };
	sluice_job *job = NULL;

	be_default();
	nodes_have_kernels = 1;
	if (rank == 2)
		setenv("SLUICE_PROVIDER", "none-of-this-name", 1);
	CHECK(sluice_init(&attr, &job) == (rank == 2 ? SLUICE_ENOSUPP : SLUICE_EPEER));
	CHECK(error_says("no transport reaches rank 0 (node n1) from rank 2 (node n2)",
			 "libfabric has no provider none-of-this-name"));
	CHECK(rank == 2 || error_says("rank 2 (node n2) cannot take part", NULL));
	CHECK(job == NULL);
	return 0;
}

TEST_IN_RANKS(init__a_rank_that_may_not__is_obeyed_and_fails, 3)
{
	const sluice_job_attr attr = { .size = sizeof(attr), .wait_timeout_ms = 60000 };
	sluice_job *job = NULL;

	be_default();
	nodes_have_kernels = 1;
	if (rank == 2)
		setenv("SLUICE_TRANSPORT", "shm", 1);
	else
		unsetenv("SLUICE_TRANSPORT");
	CHECK(sluice_init(&attr, &job) == SLUICE_ENOSUPP);
	CHECK(error_says("no transport reaches rank", "rank 2 offers self shm") ||
	      error_says("no transport reaches rank", "rank 2 self shm"));
	CHECK(error_says("SLUICE_TRANSPORT=self,shm", NULL));
	CHECK(job == NULL);
	return 0;
}

/* ---- death ------------------------------------------------------------------------ */

static int outlive(int rank, void *argument)
{
	const sluice_job_attr attr = { .size = sizeof(attr), .lost_after_ms = 1000 * slowness() };
	sluice_job *job;

	setenv("SLUICE_TRANSPORT", "ofi", 1);
	setenv("SLUICE_INTERFACE", "lo", 1);
	job = rank_join(&attr);
	log_capture();
	CHECK_OK(sluice_barrier(job));
	if (rank == 1)
		raise(SIGKILL);
	CHECK(sluice_barrier(job) == SLUICE_EPEER);
	CHECK(error_says("rank 1 (node n1) is lost", "its process ended"));
	sluice_finalize(&job);
	return 0;
}

TEST(barrier__with_a_rank_that_was_killed__fails_naming_it)
{
	int status[3];

	run_ranks_status(3, outlive, NULL, NULL, 120000, status);
	assert_true(WIFEXITED(status[0]) && !WEXITSTATUS(status[0]));
	assert_true(WIFEXITED(status[2]) && !WEXITSTATUS(status[2]));
	assert_true(WIFSIGNALED(status[1]));
}

/* Tested in a child: libfabric keeps the interfaces that it finds when it is loaded, and a rank
 * must load it after entering its namespace. */
static int ofi_opens(void)
{
	struct transport_config config = {
		.rank = 0, .size = 2, .queue_depth = 4, .interface = "lo", .lost_after_ms = 1000
	};
	struct transport *t = NULL;
	int status = 1;
	pid_t child = fork();

	if (child == 0) {
		const int rc = ofi_transport.open(&config, &t);

		if (rc)
			print_message("skipped: %s\n", sluice_last_error());
		else
			ofi_transport.close(&t);
		fflush(NULL);
		_exit(rc != 0);
	}
	return child > 0 && waitpid(child, &status, 0) == child && !status;
}

int main(void)
{
	if (!ofi_opens())
		return 77;
	return run_cases(NULL, NULL);
}
