/* SPDX-License-Identifier: BSD-3-Clause
 * The functions that write the sections of the page. */
#ifndef REPRODUCE_SECTIONS_H
#define REPRODUCE_SECTIONS_H
#include "tests/reproduce/page.h"

void section_topk(struct page *page);         /* 1 */
void section_threshold(struct page *page);    /* 2 */
void section_saddle(struct page *page);       /* 3 */
void section_ecx(struct page *page);          /* 4 */
void section_svrg(struct page *page);         /* 5 */
void section_sketch(struct page *page);       /* 6 */
void section_lag(struct page *page);          /* 7 */
void section_laq(struct page *page);          /* 8 */
void section_scalecom(struct page *page);     /* 9 */
void section_unbiased(struct page *page);     /* 10 */
void section_gaussiank(struct page *page);    /* 11 */
void section_average(struct page *page);      /* 12 */
void section_histogram(struct page *page);    /* 13 */
void global_threshold(struct page *page);     /* 13, last part */
void section_local(struct page *page);        /* 14 */
void section_conservation(struct page *page); /* 15 */
void section_wire(struct page *page);         /* 17 */
#endif
