/* SPDX-License-Identifier: BSD-3-Clause
 * The verdicts of sluice-info about simulated nodes, which are trees of files: one healthy node,
 * and the same node with one fault at a time. */
#include "tools/info/probes.h"
#include "compress/select_kernels.h"
#include "tests/unit/scratch.h"
#include "tests/unit/two_gpus.h"
#include "cases.h"
#include <string.h>

static char root[SCRATCH_PATH];
static struct node node;
static struct report report;

/* Writes a file below the root, and its directories. text NULL: removes the file. */
static void put(const char *path, const char *text)
{
	char whole[2 * SCRATCH_PATH];

	snprintf(whole, sizeof whole, "%s%s", root, path);
	if (!text) {
		scratch_remove(whole);
		return;
	}
	for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(whole, 0755);
		*slash = '/';
	}
	assert_int_equal(scratch_write(whole, text, strlen(text)), 0);
}

#define DEVICE "/sys/class/infiniband/mlx5_0"
#define PORT   DEVICE "/ports/1"

static void healthy(void)
{
	put(DEVICE "/fw_ver", "22.36.1010\n");
	put(DEVICE "/node_type", "1: CA\n");
	put(DEVICE "/device/numa_node", "1\n");
	put(PORT "/state", "4: ACTIVE\n");
	put(PORT "/phys_state", "5: LinkUp\n");
	put(PORT "/rate", "100 Gb/sec (4X EDR)\n");
	put(PORT "/link_layer", "Ethernet\n");
	put(PORT "/gids/0", "fe80:0000:0000:0000:0000:00ff:fe00:0001\n");
	put(PORT "/gid_attrs/types/0", "IB/RoCE v1\n");
	put(PORT "/gids/1", "fe80:0000:0000:0000:0000:00ff:fe00:0001\n");
	put(PORT "/gid_attrs/types/1", "RoCE v2\n");
	put(PORT "/gids/2", "0000:0000:0000:0000:0000:ffff:0a03:0001\n");
	put(PORT "/gid_attrs/types/2", "IB/RoCE v1\n");
	put(PORT "/gids/3", "0000:0000:0000:0000:0000:ffff:0a03:0001\n");
	put(PORT "/gid_attrs/types/3", "RoCE v2\n");
	put(PORT "/gid_attrs/ndevs/3", "eth2\n");
	put(PORT "/gids/10", "0000:0000:0000:0000:0000:0000:0000:0000\n");
	put("/dev/infiniband/uverbs0", "x");
	put("/dev/infiniband/rdma_cm", "x");
	put("/proc/self/limits",
	    "Limit                     Soft Limit           Hard Limit           Units\n"
	    "Max locked memory         unlimited            unlimited            bytes\n");
	put("/proc/self/status", "CapEff:\t0000000000000000\n");
}

static int set_up(void **state)
{
	unsetenv("SLUICE_TRANSPORT");
	unsetenv("SLUICE_GID_INDEX");
	unsetenv("SLURM_JOB_ID");
	unsetenv("SLURM_CONF");
	if (scratch_make(root))
		return -1;
	/* The node must have RDMA, whether this build has verbs or not. */
	node = (struct node){ .root = root, .memlock_need = 64 << 20, .needs_verbs = 1 };
	healthy();
	return 0;
}

static int tear_down(void **state)
{
	report_free(&report);
	scratch_remove(root);
	return 0;
}

static void look(void)
{
	report_free(&report);
	probe_rdma(&node, &report);
	probe_memlock(&node, &report);
}

static const struct finding *found(const char *name, enum verdict verdict)
{
	const struct finding *f = report_find(&report, name);

	if (!f) {
		report_print_text(&report, stderr);
		fail_msg("there is no finding %s", name);
	}
	if (f->verdict != verdict)
		fail_msg("%s has verdict %d, not %d: %s", name, f->verdict, verdict, f->text);
	return f;
}

/* Checks that a failure has the finding and the remedy. */
static void fails(const char *name, const char *text, const char *remedy)
{
	const struct finding *f = found(name, VERDICT_FAIL);

	if (!strstr(f->text, text))
		fail_msg("%s does not say \"%s\": %s", name, text, f->text);
	if (!strstr(f->remedy, remedy))
		fail_msg("%s does not advise \"%s\": %s", name, remedy, f->remedy);
	assert_int_equal(report_verdict(&report), VERDICT_FAIL);
}

#define CASE(name) TEST_WITH(name, set_up, tear_down)

CASE(healthy_node__is_ok_and_takes_the_first_routable_gid)
{
	const struct finding *f;

	look();
	f = found("rdma-gid mlx5_0:1", VERDICT_OK);
	assert_non_null(strstr(f->text, "[3] 0000:0000:0000:0000:0000:ffff:0a03:0001"));
	assert_non_null(strstr(f->text, "IPv4"));
	found("rdma-files", VERDICT_OK);
	found("memlock", VERDICT_OK);
	assert_int_equal(report_verdict(&report), VERDICT_OK);
}

CASE(all_ports_down__fails_naming_cable_and_link)
{
	put(PORT "/state", "1: DOWN\n");
	put(PORT "/phys_state", "3: Disabled\n");
	look();
	fails("rdma-ports", "all 1 ports are down", "ip link set");
	found("rdma-port mlx5_0:1", VERDICT_INFO);
}

CASE(one_of_two_ports_down__is_ok)
{
	put(DEVICE "/ports/2/state", "1: DOWN\n");
	put(DEVICE "/ports/2/link_layer", "Ethernet\n");
	look();
	assert_non_null(strstr(found("rdma-ports", VERDICT_OK)->text, "1 of 2 are up"));
	assert_int_equal(report_verdict(&report), VERDICT_OK);
}

CASE(only_link_local_gids__fails_asking_for_an_address)
{
	put(PORT "/gids/3", NULL);
	look();
	fails("rdma-gid mlx5_0:1", "no usable GID among 3", "ip addr add");
}

CASE(no_gids_at_all__fails)
{
	put(PORT "/gids", NULL);
	look();
	fails("rdma-gid mlx5_0:1", "no usable GID among 0", "ip addr add");
}

CASE(ipv6_only__takes_the_global_one)
{
	put(PORT "/gids/3", "2001:0db8:0000:0000:0000:0000:0000:0001\n");
	look();
	assert_non_null(strstr(found("rdma-gid mlx5_0:1", VERDICT_OK)->text, "IPv6"));
}

CASE(gid_index_of_the_user__is_taken_or_refused)
{
	setenv("SLUICE_GID_INDEX", "3", 1);
	look();
	assert_non_null(strstr(found("rdma-gid mlx5_0:1", VERDICT_OK)->text, "SLUICE_GID_INDEX"));
	setenv("SLUICE_GID_INDEX", "1", 1);
	look();
	assert_non_null(strstr(found("rdma-gid mlx5_0:1", VERDICT_OK)->text, "link-local"));
	setenv("SLUICE_GID_INDEX", "0", 1);
	look();
	fails("rdma-gid mlx5_0:1", "[0]", "SLUICE_GID_INDEX");
}

CASE(broken_gid_entries__are_passed_over)
{
	put(PORT "/gids/0", "not a gid\n");
	put(PORT "/gids/1", "");
	put(PORT "/gids/2", "0000:0000:0000:0000:0000:ffff:0a03:0001:0002\n");
	look();
	found("rdma-gid mlx5_0:1", VERDICT_OK);
}

CASE(no_device__fails_when_verbs_is_needed_and_only_then)
{
	put("/sys/class/infiniband", NULL);
	look();
	fails("rdma-devices", "none", "modprobe rdma_rxe");
	node.needs_verbs = 0;
	look();
	assert_true(report_find(&report, "rdma-devices")->verdict < VERDICT_FAIL);
}

CASE(no_dev_infiniband__fails_naming_the_module)
{
	put("/dev/infiniband", NULL);
	look();
	fails("rdma-files", "/dev/infiniband/uverbs*", "modprobe ib_uverbs");
	healthy();
	put("/dev/infiniband/rdma_cm", NULL);
	look();
	fails("rdma-files", "/dev/infiniband/rdma_cm", "modprobe rdma_ucm");
}

/* Its ports are used without IP addresses as well. */
CASE(no_rdma_cm_on_infiniband__only_warns)
{
	put("/dev/infiniband/rdma_cm", NULL);
	put(PORT "/link_layer", "InfiniBand\n");
	look();
	assert_non_null(strstr(found("rdma-files", VERDICT_WARN)->text, "rdma_cm"));
}

static void limit(const char *soft, const char *hard)
{
	char text[256];

	snprintf(text, sizeof text, "Max locked memory         %-20s %-20s bytes\n", soft, hard);
	put("/proc/self/limits", text);
}

CASE(memlock_of_64_KiB__fails_with_need_limit_origin_and_remedy)
{
	const struct finding *f;

	limit("65536", "131072");
	put("/etc/security/limits.d/90-site.conf", "# all users\n* - memlock 64 # KiB\n");
	put("/etc/slurm/slurm.conf", "ClusterName=x\nPropagateResourceLimits=ALL\n");
	look();
	fails("memlock", "need 64 MiB, limit 64 KiB", "memlock unlimited");
	assert_non_null(strstr(found("memlock", VERDICT_FAIL)->text, "hard limit 128 KiB"));
	assert_non_null(strstr(found("memlock", VERDICT_FAIL)->text, "this login"));
	f = found("memlock-origin", VERDICT_INFO);
	assert_non_null(strstr(f->text, "/etc/security/limits.d/90-site.conf: * - memlock 64"));
	assert_non_null(strstr(f[1].text, "PropagateResourceLimits=ALL"));
	setenv("SLURM_JOB_ID", "7", 1);
	look();
	fails("memlock", "slurmd", "PropagateResourceLimitsExcept=MEMLOCK");
}

CASE(memlock__enough_exempt_or_without_rdma__is_ok)
{
	limit("67108864", "67108864");
	look();
	found("memlock", VERDICT_OK);
	node.memlock_need++;
	look();
	found("memlock", VERDICT_FAIL);
	put("/proc/self/status", "CapEff:\t0000000000004000\n");
	look();
	assert_non_null(strstr(found("memlock", VERDICT_OK)->text, "CAP_IPC_LOCK"));
	put("/proc/self/status", "CapEff:\t0000000000000000\n");
	put("/sys/class/infiniband", NULL);
	look();
	found("memlock", VERDICT_OK);
}

CASE(no_limits_file__is_a_warning)
{
	put("/proc/self/limits", NULL);
	look();
	found("memlock", VERDICT_WARN);
	assert_int_equal(report_verdict(&report), VERDICT_WARN);
}

CASE(gpu_beside_rdma__acs_and_iommu_are_warned_about)
{
	char config[512] = { 0 };
	char path[2 * SCRATCH_PATH];

	put("/proc/driver/nvidia/version",
	    "NVRM version: NVIDIA UNIX Open Kernel Module  550.54\n");
	put("/proc/sys/kernel/osrelease", "5.10.0-28-amd64\n");
	put("/sys/kernel/iommu_groups/0/type", "DMA-FQ\n");
	put("/sys/bus/pci/devices/0000:00:01.0/class", "0x060400\n");
	put("/sys/bus/pci/devices/0000:00:01.0/config", "");
	/* AER at 0x100, which points to ACS at 0x148, with control word 0x001d */
	config[0x100] = 0x01, config[0x102] = (char)0x81, config[0x103] = 0x14;
	config[0x148] = 0x0d, config[0x14a] = 0x01, config[0x14e] = 0x1d;
	snprintf(path, sizeof path, "%s/sys/bus/pci/devices/0000:00:01.0/config", root);
	assert_int_equal(scratch_write(path, config, sizeof config), 0);
	probe_gpu(&node, &report);
	assert_non_null(strstr(found("acs", VERDICT_WARN)->text, "1 of 1 PCI bridges"));
	assert_non_null(strstr(found("iommu", VERDICT_WARN)->remedy, "iommu=pt"));
	found("gpu-memory", VERDICT_WARN);
	/* On the same bus without a GPU, this is no problem. */
	put("/proc/driver/nvidia/version", NULL);
	report_free(&report);
	probe_gpu(&node, &report);
	assert_int_equal(report_verdict(&report), VERDICT_OK);
	/* The search ends even if the list of capabilities is circular. */
	config[0x148] = 0x02, config[0x14a] = 0x01, config[0x14b] = 0x10;
	assert_int_equal(scratch_write(path, config, sizeof config), 0);
	probe_gpu(&node, &report);
}

CASE(unknown_and_wrong_variables__are_judged)
{
	setenv("SLUICE_TRANSPROT", "shm", 1);
	probe_sluice(&node, &report);
	assert_non_null(strstr(found("environment", VERDICT_WARN)->text, "SLUICE_TRANSPORT"));
	unsetenv("SLUICE_TRANSPROT");
	setenv("SLUICE_SPIN", "soon", 1);
	report_free(&report);
	probe_sluice(&node, &report);
	assert_non_null(strstr(found("environment", VERDICT_FAIL)->text, "soon"));
	unsetenv("SLUICE_SPIN");
	report_free(&report);
	probe_sluice(&node, &report);
	found("environment", VERDICT_OK);
	assert_non_null(strstr(found("SLUICE_SPIN", VERDICT_INFO)->text, "50us (default)"));
}

CASE(wrong_recipe__fails_naming_variable_word_and_remedy)
{
	setenv("SLUICE_RECIPE", "up=topq(0.01)", 1);
	probe_sluice(&node, &report);
	unsetenv("SLUICE_RECIPE");
	fails("environment", "SLUICE_RECIPE=\"up=topq(0.01)\"", "correct or remove it");
	assert_non_null(strstr(found("environment", VERDICT_FAIL)->text, "topk"));
	report_free(&report);
	setenv("SLUICE_RECIPE", "up=topk(0.01)", 1);
	probe_sluice(&node, &report);
	unsetenv("SLUICE_RECIPE");
	found("environment", VERDICT_OK);
}

CASE(kernels__are_those_that_the_selector_takes)
{
	char expected[64];

	probe_sluice(&node, &report);
	snprintf(expected, sizeof(expected), "selection %s, ", select_best()->name);
	assert_non_null(strstr(found("kernels", VERDICT_INFO)->text, expected));
	report_free(&report);
	setenv("SLUICE_KERNELS", "portable", 1);
	probe_sluice(&node, &report);
	unsetenv("SLUICE_KERNELS");
	assert_non_null(strstr(found("kernels", VERDICT_INFO)->text, "selection portable, "));
}

CASE(version__names_the_compiler)
{
	const char *by;

	probe_sluice(&node, &report);
	by = strstr(found("version", VERDICT_INFO)->text, "compiled by ");
	assert_non_null(by);
	if (!strstr(by, "GCC ") && !strstr(by, "lang "))
		fail_msg("no name of a compiler: %s", by);
}

/* Makes a program srun, which is the only one in PATH. NULL: there is none. */
static void ask_slurm(const char *script)
{
	char path[2 * SCRATCH_PATH], *before = strdup(getenv("PATH"));

	put("/bin/srun", script ? script : "");
	snprintf(path, sizeof path, "%s/bin/srun", root);
	assert_int_equal(chmod(path, script ? 0755 : 0644), 0);
	snprintf(path, sizeof path, "%s/bin", root);
	setenv("PATH", path, 1);
	report_free(&report);
	probe_launcher(&(struct node){ .root = "" }, &report);
	setenv("PATH", before, 1);
	free(before);
}

CASE(srun__absent_unconfigured_and_well__are_told_apart)
{
	ask_slurm(NULL);
	assert_string_equal(found("slurm", VERDICT_INFO)->text, "there is no srun in PATH");
	ask_slurm("#!/bin/sh\necho 'srun: fatal: no configuration source' >&2; exit 1\n");
	assert_non_null(strstr(found("slurm", VERDICT_WARN)->text, "no configuration source"));
	assert_non_null(strstr(found("slurm", VERDICT_WARN)->remedy, "SLURM_CONF"));
	ask_slurm("#!/bin/sh\n[ $1 = --version ] && echo slurm 99.1 || echo pmix_v9\n");
	assert_string_equal(found("slurm", VERDICT_INFO)->text, "slurm 99.1");
	found("slurm-pmix", VERDICT_OK);
}

/* Checks each line of the example for --check in sluice-info(1). */
CASE(example_of_the_manual__is_what_the_program_prints)
{
	char line[1024], *printed = NULL;
	size_t bytes;
	int inside = 0, lines = 0;
	FILE *page = fopen(SOURCE "/man/sluice-info.1", "re"), *memory;

	assert_non_null(page);
	memory = open_memstream(&printed, &bytes);
	look();
	report_print_check(&report, VERDICT_OK, "", memory);
	limit("65536", "131072");
	setenv("SLURM_JOB_ID", "7", 1);
	look();
	report_print_check(&report, VERDICT_OK, "", memory);
	fclose(memory);
	while (fgets(line, sizeof line, page)) {
		if (!strcmp(line, ".Ed\n"))
			inside = 0;
		if (inside && !strstr(printed, line))
			fail_msg("the program does not print: %sbut:\n%s", line, printed);
		lines += inside;
		if (!strcmp(line, ".Bd -literal\n") && !lines)
			inside = 1;
	}
	assert_true(lines >= 3);
	fclose(page);
	free(printed);
}

#ifdef HAVE_HWLOC
CASE(nearness__two_gpus_and_two_cards__each_pair)
{
	char path[2 * SCRATCH_PATH];

	put("/machine.xml", two_gpus);
	snprintf(path, sizeof path, "%s/machine.xml", root);
	setenv("HWLOC_XMLFILE", path, 1);
	probe_nearness(&report);
	unsetenv("HWLOC_XMLFILE");
	assert_int_equal(report.n, 4);
	assert_string_equal(found("gpu-nic 0000:11:00.0 fake1", VERDICT_INFO)->text,
			    "below the same PCIe switch");
	assert_string_equal(found("gpu-nic 0000:21:00.0 fake0", VERDICT_INFO)->text,
			    "below the same PCIe root");
	assert_string_equal(found("gpu-nic 0000:11:00.0 fake0", VERDICT_INFO)->text,
			    "on the same machine");
}

CASE(cards_of_ranks__two_gpus_and_two_cards__the_nearest_of_those_allowed)
{
	char path[2 * SCRATCH_PATH];

	put("/machine.xml", two_gpus);
	snprintf(path, sizeof path, "%s/machine.xml", root);
	setenv("HWLOC_XMLFILE", path, 1);
	probe_cards_of_ranks(3, &report);
	assert_int_equal(report.n, 3);
	assert_string_equal(found("card-of-rank 0", VERDICT_INFO)->text,
			    "fake1: below the same PCIe switch as GPU 0000:11:00.0, the nearest "
			    "usable one");
	assert_non_null(strstr(found("card-of-rank 1", VERDICT_INFO)->text, "fake0: "));
	assert_non_null(strstr(found("card-of-rank 2", VERDICT_INFO)->text, "fake1: "));
	setenv("SLUICE_DEVICE", "^fake1", 1);
	report.n = 0;
	probe_cards_of_ranks(1, &report);
	assert_string_equal(found("card-of-rank 0", VERDICT_INFO)->text,
			    "fake0: the only usable one");
	setenv("SLUICE_DEVICE", "mlx5_0", 1);
	report.n = 0;
	probe_cards_of_ranks(1, &report);
	assert_non_null(strstr(found("card-of-rank", VERDICT_INFO)->text, "SLUICE_DEVICE"));
	unsetenv("SLUICE_DEVICE");
	unsetenv("HWLOC_XMLFILE");
}
#endif

CASE(check_and_json__hostile_text__stay_one_line_and_valid)
{
	char *text = NULL;
	size_t bytes;
	FILE *memory;

	report_add(&report, VERDICT_FAIL, "S", "a", "do \"this\"", "line\nbreak \\ %s", "\x01\xff");
	report_add(&report, VERDICT_INFO, "S", "b", NULL, "fact");
	memory = open_memstream(&text, &bytes);
	report_print_check(&report, VERDICT_OK, "print ", memory);
	fclose(memory);
	assert_string_equal(text, "print FAIL a: line break \\ \x01\xff; do \"this\"\n");
	free(text);
	memory = open_memstream(&text, &bytes);
	report_print_json(&report, "1", memory);
	fclose(memory);
	assert_non_null(strstr(
		text,
		"\"finding\":\"line break \\\\ \\u0001\\u00ff\",\"remedy\":\"do \\\"this\\\"\""));
	assert_non_null(strstr(text, "\"verdict\":\"FAIL\",\"findings\""));
	free(text);
}
