/* SPDX-License-Identifier: BSD-3-Clause
 * See nearness.h. hwloc's tree is read once per job, before there are any peers. */
#include "rdma/nearness.h"
#include <stdio.h>
#include <string.h>

const struct nearness nearness_unknown = { -1, "not known where" };

#ifdef HAVE_HWLOC
#include <hwloc.h>

enum { VENDOR_NVIDIA = 0x10de, CLASS_DISPLAY = 0x03 };

/* Uses only the kernel's files, because hwloc's other components open devices. */
hwloc_topology_t nearness_topology(void)
{
	static const char *const others[] = { "pci",  "opencl",    "cuda", "nvml",
					      "rsmi", "levelzero", "gl" };
	hwloc_topology_t t;

	if (hwloc_topology_init(&t))
		return NULL;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
					      others[i]);
	hwloc_topology_set_cache_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
	if (!hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) &&
	    !hwloc_topology_load(t))
		return t;
	hwloc_topology_destroy(t);
	return NULL;
}

hwloc_obj_t nearness_card(hwloc_topology_t t, const char *name)
{
	hwloc_obj_t o = NULL;

	while ((o = hwloc_get_next_osdev(t, o)) != NULL)
		if (o->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS && !strcmp(o->name, name))
			return o;
	return NULL;
}

/* Returns the number of the object's ancestors. hwloc's own depth does not cover I/O objects. */
static int height(hwloc_obj_t o)
{
	int n = 0;

	while ((o = o->parent) != NULL)
		n++;
	return n;
}

static const char *name_meeting(hwloc_obj_t o)
{
	switch (o->type) {
	case HWLOC_OBJ_PCI_DEVICE: return "the same PCI device";
	case HWLOC_OBJ_BRIDGE:
		return o->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST ?
			       "below the same PCIe root" :
			       "below the same PCIe switch";
	case HWLOC_OBJ_MACHINE: return "on the same machine";
	case HWLOC_OBJ_PACKAGE: return "on the same package";
	default: return "on the same part of a package";
	}
}

struct nearness nearness_at(hwloc_obj_t meeting)
{
	return (struct nearness){ height(meeting), name_meeting(meeting) };
}

struct nearness nearness_between(hwloc_obj_t gpu, hwloc_obj_t card)
{
	if (!gpu || !card)
		return nearness_unknown;
	for (int g = height(gpu), c = height(card); gpu != card;) {
		if (g >= c) {
			gpu = gpu->parent;
			g--;
		} else {
			card = card->parent;
			c--;
		}
	}
	return nearness_at(gpu);
}

int nearness_is_gpu(hwloc_obj_t pci)
{
	const struct hwloc_pcidev_attr_s *a = &pci->attr->pcidev;

	return a->vendor_id == VENDOR_NVIDIA && a->class_id >> 8 == CLASS_DISPLAY;
}

static void list_gpus(hwloc_topology_t t, struct neighbours *out, hwloc_obj_t gpu[NEARNESS_GPUS])
{
	hwloc_obj_t o = NULL;

	while ((o = hwloc_get_next_pcidev(t, o)) != NULL && out->n_gpus < NEARNESS_GPUS) {
		const struct hwloc_pcidev_attr_s *a = &o->attr->pcidev;

		if (!nearness_is_gpu(o))
			continue;
		snprintf(out->gpu[out->n_gpus], BUS_ID_TEXT, "%04x:%02x:%02x.%x", a->domain, a->bus,
			 a->dev, a->func);
		gpu[out->n_gpus++] = o;
	}
}

int nearness_all(struct neighbours *out)
{
	hwloc_topology_t t = nearness_topology();
	hwloc_obj_t gpu[NEARNESS_GPUS], o = NULL;

	memset(out, 0, sizeof(*out));
	if (!t)
		return -1;
	list_gpus(t, out, gpu);
	while ((o = hwloc_get_next_osdev(t, o)) != NULL && out->n_cards < NEARNESS_CARDS) {
		if (o->attr->osdev.type != HWLOC_OBJ_OSDEV_OPENFABRICS)
			continue;
		snprintf(out->card[out->n_cards], CARD_NAME, "%s", o->name);
		for (size_t g = 0; g < out->n_gpus; g++)
			out->pair[g][out->n_cards] = nearness_between(gpu[g], o);
		out->n_cards++;
	}
	hwloc_topology_destroy(t);
	return 0;
}

#else

int nearness_all(struct neighbours *out)
{
	memset(out, 0, sizeof(*out));
	return -1;
}
#endif
