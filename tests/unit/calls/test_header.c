/* SPDX-License-Identifier: BSD-3-Clause
 * The public header: it compiles alone as C11, and the ABI is unchanged. */
#include "sluice.h"
#include "sluice_region.h"
#include "sluice_select.h"
#include "sluice_vector.h"
#include "cases.h"

/* The header must not need any other header, so it is included first. */
#include <stdlib.h>
#include <string.h>

_Static_assert(SLUICE_OK == 0, "success is 0");
_Static_assert(SLUICE_GATHER_MAX == 512, "programs size buffers by it");

/* New fields come at the end, so that the size in a program that was compiled earlier stays
 * valid. */
_Static_assert(offsetof(sluice_job_attr, size) == 0, "size is first");
_Static_assert(offsetof(sluice_model_attr, size) == 0, "size is first");
_Static_assert(offsetof(sluice_model_stats, size) == 0, "size is first");

TEST(error_values__are_pinned)
{
	static const struct {
		int code, value;
		const char *name;
	} pinned[] = {
		{ SLUICE_OK, 0, "SLUICE_OK" },
		{ SLUICE_EINVAL, -1, "SLUICE_EINVAL" },
		{ SLUICE_ENOMEM, -2, "SLUICE_ENOMEM" },
		{ SLUICE_ENOSUPP, -3, "SLUICE_ENOSUPP" },
		{ SLUICE_EAGAIN, -4, "SLUICE_EAGAIN" },
		{ SLUICE_ETIMEDOUT, -5, "SLUICE_ETIMEDOUT" },
		{ SLUICE_EDEVICE, -6, "SLUICE_EDEVICE" },
		{ SLUICE_EBOOT, -7, "SLUICE_EBOOT" },
		{ SLUICE_EGPU, -8, "SLUICE_EGPU" },
		{ SLUICE_EPEER, -9, "SLUICE_EPEER" },
		{ SLUICE_EWIRE, -10, "SLUICE_EWIRE" },
		{ SLUICE_ENUMERIC, -11, "SLUICE_ENUMERIC" },
		{ SLUICE_EIO, -12, "SLUICE_EIO" },
	};

	for (size_t i = 0; i < sizeof(pinned) / sizeof(pinned[0]); i++) {
		assert_int_equal(pinned[i].code, pinned[i].value);
		assert_non_null(strstr(sluice_strerror(pinned[i].code), pinned[i].name));
	}
}

TEST(strerror__unknown_codes_are_named_too)
{
	assert_non_null(sluice_strerror(1));
	assert_non_null(sluice_strerror(-13));
	assert_non_null(sluice_strerror(INT32_MIN));
	assert_true(strlen(sluice_strerror(-13)) > 0);
}

TEST(structures__keep_their_layout)
{
	if (sizeof(void *) != 8)
		skip();
	assert_int_equal(sizeof(sluice_job_attr), 40);
	assert_int_equal(offsetof(sluice_job_attr, wait_timeout_ms), 20);
	assert_int_equal(offsetof(sluice_job_attr, on_failure), 24);
	assert_int_equal(offsetof(sluice_job_attr, bootstrap), 32);
	assert_int_equal(sizeof(sluice_bootstrap), 64);
	assert_int_equal(offsetof(sluice_bootstrap, put), 40);
	assert_int_equal(sizeof(sluice_tensor), 16);
	assert_int_equal(sizeof(sluice_segment), 24);
	assert_int_equal(offsetof(sluice_segment, type), 16);
	assert_int_equal(sizeof(sluice_tensor_rule), 8);
	assert_int_equal(sizeof(sluice_model_attr), 128);
	assert_int_equal(offsetof(sluice_model_attr, recipe), 32);
	assert_int_equal(offsetof(sluice_model_attr, memory_bytes), 56);
	assert_int_equal(offsetof(sluice_model_attr, stream), 64);
	assert_int_equal(offsetof(sluice_model_attr, grad_type), 72);
	assert_int_equal(offsetof(sluice_model_attr, uneven), 76);
	assert_int_equal(offsetof(sluice_model_attr, param_type), 80);
	assert_int_equal(offsetof(sluice_model_attr, segments), 88);
	assert_int_equal(offsetof(sluice_model_attr, rules), 104);
	assert_int_equal(offsetof(sluice_model_attr, device_shards), 112);
	assert_int_equal(offsetof(sluice_model_attr, columns), 120);
	assert_int_equal(offsetof(sluice_model_stats, compress_ns), 80);
	assert_int_equal(offsetof(sluice_model_stats, residual_norm), 120);
	assert_int_equal(offsetof(sluice_model_stats, density_down), 136);
	assert_int_equal(offsetof(sluice_model_stats, refused_messages), 152);
	assert_int_equal(offsetof(sluice_model_stats, staleness), 168);
	assert_int_equal(offsetof(sluice_model_stats, compression_error), 256);
	assert_int_equal(offsetof(sluice_model_stats, staleness_most), 272);
	assert_int_equal(offsetof(sluice_model_stats, memory_bytes), 280);
	assert_int_equal(offsetof(sluice_model_stats, device_ns), 288);
	assert_int_equal(offsetof(sluice_model_stats, guard_raises), 320);
	assert_int_equal(offsetof(sluice_model_stats, missed_exchanges), 328);
	assert_int_equal(offsetof(sluice_model_stats, bits_down), 352);
	assert_int_equal(sizeof(sluice_model_stats), 360);
}

TEST(version__says_package_and_wire)
{
	assert_non_null(strstr(sluice_version(NULL), PACKAGE_VERSION));
	assert_non_null(strstr(sluice_version(NULL), "(wire "));
}

TEST(version__older_than_asked_for__is_null)
{
	assert_int_equal(SLUICE_VERSION_MAJOR, atoi(SLUICE_VERSION));
	assert_string_equal(sluice_version(SLUICE_VERSION), sluice_version(NULL));
	assert_string_equal(sluice_version(sluice_version(NULL)), sluice_version(NULL));
	assert_non_null(sluice_version("0.0.99"));
	assert_null(sluice_version("0.1.1"));
	assert_null(sluice_version("0.2.0"));
	assert_null(sluice_version("1.0.0"));
	assert_null(sluice_version("0.1"));
	assert_null(sluice_version("0.1.0-rc1"));
	assert_null(sluice_version(""));
}

TEST(destroy__accepts_null_and_pointer_to_null)
{
	sluice_job *job = NULL;
	sluice_model *model = NULL;
	sluice_region *region = NULL;

	sluice_finalize(NULL);
	sluice_finalize(&job);
	sluice_model_close(NULL);
	sluice_model_close(&model);
	sluice_region_close(NULL);
	sluice_region_close(&region);
	assert_null(job);
}
