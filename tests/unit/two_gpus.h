/* SPDX-License-Identifier: BSD-3-Clause
 * A machine described by hwloc's XML: two packages; below the first, one PCIe switch with GPU
 * 0000:11:00.0 and card fake1; below the second, one PCIe root with GPU 0000:21:00.0 and card fake0
 * behind bridges of their own. */
#ifndef TESTS_TWO_GPUS_H
#define TESTS_TWO_GPUS_H
#define BRIDGE(gp, id, buses)                                                                      \
	"<object type=\"Bridge\" gp_index=\"" gp                                                   \
	"\" bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"0000:[" buses "]\" "                      \
	"pci_busid=\"0000:" id                                                                     \
	"\" pci_type=\"0604 [8086:2030] [0000:0000] 04\" pci_link_speed=\"31.5\">"
#define ROOT(gp, buses)                                                                            \
	"<object type=\"Bridge\" gp_index=\"" gp                                                   \
	"\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[" buses "]\">"
#define GPU(gp, id)                                                                                \
	"<object type=\"PCIDev\" gp_index=\"" gp "\" pci_busid=\"0000:" id "\" "                   \
	"pci_type=\"0302 [10de:2330] [10de:16c1] a1\" pci_link_speed=\"31.5\"/>"
#define CARD(gp, id, gp_inside, name)                                                              \
	"<object type=\"PCIDev\" gp_index=\"" gp "\" pci_busid=\"0000:" id "\" "                   \
	"pci_type=\"0207 [15b3:1021] [15b3:0041] 00\" pci_link_speed=\"31.5\">"                    \
	"<object type=\"OSDev\" gp_index=\"" gp_inside "\" name=\"" name                           \
	"\" osdev_type=\"3\"/></object>"
#define SOCKET(i, set, gp, gp_core, gp_pu, gp_node)                                                \
	"<object type=\"Package\" os_index=\"" i "\" cpuset=\"" set "\" complete_cpuset=\"" set    \
	"\" nodeset=\"" set "\" complete_nodeset=\"" set "\" gp_index=\"" gp "\">"                 \
	"<object type=\"NUMANode\" os_index=\"" i "\" cpuset=\"" set "\" complete_cpuset=\"" set   \
	"\" nodeset=\"" set "\" complete_nodeset=\"" set "\" gp_index=\"" gp_node                  \
	"\" local_memory=\"1073741824\"/>"                                                         \
	"<object type=\"Core\" os_index=\"" i "\" cpuset=\"" set "\" complete_cpuset=\"" set       \
	"\" nodeset=\"" set "\" complete_nodeset=\"" set "\" gp_index=\"" gp_core "\">"            \
	"<object type=\"PU\" os_index=\"" i "\" cpuset=\"" set "\" complete_cpuset=\"" set         \
	"\" nodeset=\"" set "\" complete_nodeset=\"" set "\" gp_index=\"" gp_pu "\"/></object>"

static const char two_gpus[] =
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
	"<topology version=\"2.0\">\n"
	"<object type=\"Machine\" os_index=\"0\" cpuset=\"0x00000003\" "
	"complete_cpuset=\"0x00000003\" allowed_cpuset=\"0x00000003\" nodeset=\"0x00000003\" "
	"complete_nodeset=\"0x00000003\" allowed_nodeset=\"0x00000003\" gp_index=\"1\">\n" SOCKET(
		"0", "0x00000001", "2", "3", "4",
		"5") ROOT("20", "10-1f") BRIDGE("21", "10:00.0", "11-12") GPU("22", "11:00.0")
		CARD("23", "12:00.0", "24", "fake1") "</object></object></object>\n" SOCKET(
			"1", "0x00000002", "6", "7", "8",
			"9") ROOT("30", "20-2f") BRIDGE("31", "20:00.0", "21-21")
			GPU("32", "21:00.0") "</object>" BRIDGE("33", "20:01.0", "22-22")
				CARD("34", "22:00.0", "35", "fake0") "</object></object></object>\n"
								     "</object>\n</topology>\n";
#endif
