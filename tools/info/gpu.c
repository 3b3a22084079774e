/* SPDX-License-Identifier: BSD-3-Clause
 * Checks GPUs for RDMA: the driver, the two ways to register GPU memory, and the PCI features
 * between NIC and GPU (IOMMU translation, ACS redirection). On a node without GPUs, the
 * lines are only information. */
#include "base/env.h"
#include "base/device.h"
#include "rdma/card_choice.h"
#include "rdma/card_list.h"
#include "rdma/nearness.h"
#include "tools/info/probes.h"
#include <stdlib.h>
#include <string.h>

static const char section[] = "GPU and PCI";
enum { CONFIG_BYTES = 4096, FIRST_EXTENDED = 0x100, CAPABILITY_ACS = 0x0d, ACS_REDIRECT = 0x0c };

/* Returns the ACS control word of a bridge. Returns -1 if it has none, and -2 if this user cannot
 * read the whole configuration space, which only root can. */
static int acs_control(const struct node *node, const char *device)
{
	char path[LINE_BYTES], relative[128];
	uint8_t config[CONFIG_BYTES];
	size_t n, at = FIRST_EXTENDED;
	FILE *file;

	snprintf(relative, sizeof(relative), "/sys/bus/pci/devices/%s/config", device);
	node_path(node, relative, path);
	file = fopen(path, "re");
	if (!file)
		return -2;
	n = fread(config, 1, sizeof(config), file);
	fclose(file);
	if (n <= FIRST_EXTENDED)
		return n <= 64 ? -2 : -1;
	for (int hops = 0; hops < 64 && at >= FIRST_EXTENDED && at + 8 <= n; hops++) {
		unsigned id = config[at] | config[at + 1] << 8,
			 next = config[at + 2] >> 4 | config[at + 3] << 4;

		if (id == CAPABILITY_ACS)
			return config[at + 6] | config[at + 7] << 8;
		at = next;
	}
	return -1;
}

static void acs(const struct node *node, struct report *r, int matters)
{
	static struct names devices;
	int bridges = 0, redirecting = 0, unreadable = 0;
	char class[LINE_BYTES], example[64] = "";

	node_list(node, &devices, "/sys/bus/pci/devices");
	for (size_t i = 0; i < devices.n; i++) {
		int control;

		if (node_line(node, class, "/sys/bus/pci/devices/%s/class", devices.name[i]) ||
		    strncmp(class, "0x0604", 6))
			continue;
		bridges++;
		control = acs_control(node, devices.name[i]);
		unreadable += control == -2;
		if (control > 0 && control & ACS_REDIRECT) {
			redirecting++;
			snprintf(example, sizeof(example), "%.63s", devices.name[i]);
		}
	}
	if (redirecting)
		report_add(r, matters ? VERDICT_WARN : VERDICT_INFO, section, "acs",
			   matters ? "switch ACS off in the BIOS, or for each bridge: setpci -s "
				     "BRIDGE ECAP_ACS+6.w=0000" :
				     NULL,
			   "%d of %d PCI bridges send peer-to-peer traffic through the root "
			   "complex (first %s)",
			   redirecting, bridges, example);
	else if (unreadable)
		report_add(r, VERDICT_INFO, section, "acs", NULL, "unknown: only root may read it");
	else
		report_add(r, VERDICT_INFO, section, "acs", NULL,
			   "none of %d PCI bridges sends peer-to-peer traffic through the root "
			   "complex",
			   bridges);
}

static void iommu(const struct node *node, struct report *r, int matters)
{
	static struct names groups;
	char type[LINE_BYTES], translating[LINE_BYTES] = "";

	node_list(node, &groups, "/sys/kernel/iommu_groups");
	for (size_t i = 0; i < groups.n; i++)
		if (!node_line(node, type, "/sys/kernel/iommu_groups/%s/type", groups.name[i]) &&
		    strcmp(type, "identity"))
			snprintf(translating, sizeof(translating), "%s", type);
	if (!groups.n)
		report_add(r, VERDICT_INFO, section, "iommu", NULL, "off");
	else if (!*translating)
		report_add(r, VERDICT_INFO, section, "iommu", NULL, "on, passing through");
	else
		report_add(
			r, matters ? VERDICT_WARN : VERDICT_INFO, section, "iommu",
			matters ? "boot with iommu=pt (and intel_iommu=on or amd_iommu=on), or "
				  "switch the IOMMU off" :
				  NULL,
			"on, translating (%.60s): traffic between NIC and GPU is slower or fails",
			translating);
}

static void toolkit(const struct node *node, struct report *r)
{
	static const char *const ask[] = { "nvcc", "--version", NULL };
	char text[1024];
	const char *release;

	if (node_ask(node, ask, text, sizeof(text))) {
		report_add(r, VERDICT_INFO, section, "cuda-toolkit", NULL, "%s",
			   node_exists(node, "/usr/local/cuda/bin/nvcc") ?
				   "/usr/local/cuda (nvcc is not in PATH)" :
				   "there is no nvcc in PATH; only builds need it");
		return;
	}
	release = strstr(text, "release ");
	report_add(r, VERDICT_INFO, section, "cuda-toolkit", NULL, "%.80s",
		   release ? release : text);
}

/* Checks whether this library can use GPU memory on this node. If the module is installed, it must
 * find the GPUs of the node. */
static void module(int gpu, struct report *r)
{
	const char *why = "";
	const struct device_ops *ops = device_load(&why);
	char text[512];

	if (!ops)
		report_add(r, VERDICT_INFO, section, "gpu-module", NULL, "%s", why);
	else if (!ops->describe(text, sizeof(text)))
		report_add(r, VERDICT_INFO, section, "gpu-module", NULL, "%s", text);
	else
		report_add(r, gpu ? VERDICT_WARN : VERDICT_INFO, section, "gpu-module",
			   gpu ? "compare the driver (nvidia-smi) with the CUDA version that "
				 "Sluice was built with" :
				 NULL,
			   "%s", ops->error());
}

/* Lists the cards and GPUs of this machine with their distances, which explain the choice in the
 * line rdma-choice. */
void probe_nearness(struct report *r)
{
	static struct neighbours all;
	char name[NAME_BYTES];

	if (nearness_all(&all)) {
		report_add(r, VERDICT_INFO, section, "gpu-nic", NULL,
			   "unknown: built without hwloc, or hwloc does not report the hardware "
			   "of this machine");
		return;
	}
	for (size_t g = 0; g < all.n_gpus; g++) {
		if (!all.n_cards)
			report_add(r, VERDICT_INFO, section, "gpu-nic", NULL,
				   "GPU %s: no RDMA device on PCI", all.gpu[g]);
		for (size_t c = 0; c < all.n_cards; c++) {
			snprintf(name, sizeof(name), "gpu-nic %.16s %.20s", all.gpu[g],
				 all.card[c]);
			report_add(r, VERDICT_INFO, section, name, NULL, "%s",
				   all.pair[g][c].where);
		}
	}
}

/* Rank i works with GPU i modulo their number, as Sluice chooses it by local rank. */
void probe_cards_of_ranks(int ranks, struct report *r)
{
	static struct neighbours all;
	struct card cards[NEARNESS_CARDS];
	const char *allowed = env_text("SLUICE_DEVICE");
	char name[NAME_BYTES], why[192];
	unsigned port;
	size_t n = 0;

	if (nearness_all(&all))
		all.n_cards = 0;
	for (size_t i = 0; i < all.n_cards; i++)
		if (card_list_allows(allowed, all.card[i], NULL, &port))
			cards[n++] = (struct card){ all.card[i], "", 0 };
	for (int i = 0; i < ranks && n; i++) {
		struct card_choice order[NEARNESS_CARDS];
		const char *gpu = all.n_gpus ? all.gpu[(size_t)i % all.n_gpus] : "";

		cards_order_of(cards, n, gpu, i, ranks, order);
		card_choice_text(&order[0], gpu, n, why, sizeof(why));
		snprintf(name, sizeof(name), "card-of-rank %d", i);
		report_add(r, VERDICT_INFO, section, name, NULL, "%s: %s",
			   cards[order[0].card].name, why);
	}
	if (ranks && !n)
		report_add(r, VERDICT_INFO, section, "card-of-rank", NULL,
			   "no RDMA device on PCI that SLUICE_DEVICE allows, or hwloc does not "
			   "report the hardware of this machine");
}

void probe_gpu(const struct node *node, struct report *r)
{
	static struct names devices;
	char line[LINE_BYTES];
	int gpu, matters,
		peermem = node_exists(node, "/sys/module/nvidia_peermem") ||
			  node_exists(node, "/sys/module/nv_peer_mem");
	int major = 0, minor = 0;

	gpu = !node_line(node, line, "/proc/driver/nvidia/version");
	report_add(r, VERDICT_INFO, section, "cuda-driver", NULL, "%s",
		   gpu ? line : "no NVIDIA driver on this node");
	toolkit(node, r);
	module(gpu, r);
	node_list(node, &devices, "/sys/class/infiniband");
	matters = gpu && devices.n > 0;
	if (node_line(node, line, "/proc/sys/kernel/osrelease") ||
	    sscanf(line, "%d.%d", &major, &minor) != 2)
		major = 0;
	report_add(r, VERDICT_INFO, section, "dma-buf", NULL, "kernel %.64s: %s",
		   major ? line : "unknown",
		   major > 5 || (major == 5 && minor >= 12) ?
			   "can register GPU memory by dma-buf, if the driver exports it" :
			   "too old for dma-buf (5.12)");
	report_add(r, VERDICT_INFO, section, "peermem", NULL, "%s",
		   peermem ?
			   "nvidia_peermem is loaded" :
			   "not loaded (the second choice after dma-buf: modprobe nvidia_peermem)");
	if (matters && !peermem && !(major > 5 || (major == 5 && minor >= 12)))
		report_add(r, VERDICT_WARN, section, "gpu-memory",
			   "modprobe nvidia_peermem, or a kernel of 5.12 or later",
			   "neither dma-buf nor peermem: GPU memory goes through host memory");
	iommu(node, r, matters);
	acs(node, r, matters);
	if (!*node->root)
		probe_nearness(r);
}
