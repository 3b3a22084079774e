/* SPDX-License-Identifier: BSD-3-Clause
 * A library by the name of CUDA's driver that takes all memory for its own. Loaded by
 * test_device.c. */
__attribute__((visibility("default"))) int cuPointerGetAttribute(void *data, int attribute,
								 unsigned long long pointer);

int cuPointerGetAttribute(void *data, int attribute, unsigned long long pointer)
{
	(void)attribute, (void)pointer;
	*(unsigned *)data = 2; /* CU_MEMORYTYPE_DEVICE */
	return 0;
}
