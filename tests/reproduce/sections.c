/* SPDX-License-Identifier: BSD-3-Clause
 * The sections in the order of the page. */
#include "tests/reproduce/sections.h"

const struct section sections[] = {
	{ 1, "Top-k in one and in both directions", section_topk },
	{ 2, "Hard threshold", section_threshold },
	{ 3, "Escaping saddle points", section_saddle },
	{ 4, "ErrorCompensatedX", section_ecx },
	{ 5, "Double quantisation", section_svrg },
	{ 6, "Sketched-SGD", section_sketch },
	{ 7, "LAG", section_lag },
	{ 8, "LAQ", section_laq },
	{ 9, "ScaleCom", section_scalecom },
	{ 10, "Unbiased random selection", section_unbiased },
	{ 11, "Gaussian_k", section_gaussiank },
	{ 12, "PQASGD and sparse averaging", section_average },
	{ 13, "Distributions from few bits", section_histogram },
	{ 14, "Local steps, and few bits with AdamW", section_local },
	{ 15, "Conservation", section_conservation },
	{ 17, "What crosses the wire", section_wire },
};
const size_t n_sections = sizeof sections / sizeof sections[0];
