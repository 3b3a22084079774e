/* SPDX-License-Identifier: BSD-3-Clause
 * main() of a test program that has none. */
#include "cases.h"

int main(void)
{
	return run_cases(NULL, NULL);
}
