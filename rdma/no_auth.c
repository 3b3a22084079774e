/* SPDX-License-Identifier: BSD-3-Clause
 * auth.h for a build without a crypto library. Such a build has no transport to other machines, so
 * only SLUICE_KEY_FILE needs one. */
#include "rdma/auth.h"
#include "base/error.h"
#include "sluice.h"

#if !defined(HAVE_VERBS) && !defined(HAVE_LIBFABRIC)
int auth_hmac(const uint8_t key[AUTH_KEY_BYTES], const void *bytes, size_t n,
	      uint8_t out[AUTH_KEY_BYTES])
{
	(void)key;
	(void)bytes;
	(void)n;
	(void)out;
	return fail(SLUICE_ENOSUPP,
		    "this libsluice was built without a crypto library, which SLUICE_KEY_FILE "
		    "needs: install libssl-dev and libfabric-dev and configure again, or unset "
		    "SLUICE_KEY_FILE");
}

int auth_equal(const void *a, const void *b, size_t n)
{
	(void)a;
	(void)b;
	(void)n;
	return 0;
}
#endif
