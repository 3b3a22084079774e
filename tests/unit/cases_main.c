/* SPDX-License-Identifier: BSD-3-Clause
 * main() for test programs without their own. */
#include "cases.h"

int main(void)
{
	return run_cases(NULL, NULL);
}
