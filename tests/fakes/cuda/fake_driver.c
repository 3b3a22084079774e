/* SPDX-License-Identifier: BSD-3-Clause
 * A library with the name of CUDA's driver that reports all memory as device memory. Loaded by
 * test_device.c. */
__attribute__((visibility("default"))) int cuPointerGetAttribute(void *data, int attribute,
								 unsigned long long pointer);

int cuPointerGetAttribute(void *data, int attribute, unsigned long long pointer)
{
	(void)attribute, (void)pointer;
	*(unsigned *)data = 2; /* CU_MEMORYTYPE_DEVICE */
	return 0;
}
