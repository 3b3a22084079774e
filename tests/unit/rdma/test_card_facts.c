/* SPDX-License-Identifier: BSD-3-Clause
 * What sluice-info --card measures, on the cards of fake_fabric.h. */
#include "rdma/card_facts.h"
#include "rdma/path.h"
#include "sluice.h"
#include "verbs_two.h"
#include "cases.h"
#include <errno.h>
#include <string.h>

static const struct transport_config config = { .queue_depth = 64, .lost_after_ms = 1500 };

FRESH(facts__of_each_card__those_of_its_driver)
{
	for (int card = 0; card < FAKE_CARDS; card++) {
		struct card_facts f;

		fabric_setup(state);
		fake_be((enum fake_card)card, 1);
		assert_int_equal(card_facts_measure(&config, &f), 0);
		assert_string_equal(f.device, "fake0");
		assert_int_equal(f.inline_bytes, 96);
		if (fake_profiles[card].windows && !fake_profiles[card].no_alloc_mw) {
			assert_string_equal(f.no_windows, "");
			if (fake_profiles[card].longest_window)
				assert_int_equal(f.longest_window,
						 fake_profiles[card].longest_window);
		} else {
			assert_string_not_equal(f.no_windows, "");
		}
		assert_true(f.relaxed);
		assert_int_equal(f.dmabuf, 0);
		assert_null(fake_leak());
	}
}

FRESH(facts__of_a_card_that_lacks_things__said)
{
	struct card_facts f;

	fake.no_relaxed = 1;
	fake.no_dmabuf = 1;
	fake.max_inline = 32;
	assert_int_equal(card_facts_measure(&config, &f), 0);
	assert_false(f.relaxed);
	assert_int_equal(f.dmabuf, EOPNOTSUPP);
	assert_int_equal(f.inline_bytes, 32);
	assert_null(fake_leak());
}

FRESH(facts__of_a_connection__those_of_both_sides)
{
	struct card_facts f;

	assert_int_equal(card_facts_measure(&config, &f), 0);
	for (int side = 0; side < 2; side++) {
		assert_int_equal(f.side[side].path_mtu, IBV_MTU_4096);
		assert_int_equal(f.side[side].min_rnr_timer, PATH_RNR_TIMER);
		assert_int_equal(f.side[side].ah_attr.grh.traffic_class, PATH_TRAFFIC_CLASS);
		assert_int_equal(f.side[side].timeout, f.side[0].timeout);
		assert_in_range(f.side[side].retry_cnt, 1, 6);
	}
	assert_int_equal((int)card_facts_rnr_us(12), 640);
	assert_int_equal((int)card_facts_rnr_us(0), 655360);
}

FRESH(facts__of_a_card_whose_port_is_down__refused_with_the_reason)
{
	struct card_facts f;

	fake.port_down = 1;
	assert_true(card_facts_measure(&config, &f) < 0);
	assert_non_null(strstr(sluice_last_error(), "not ACTIVE"));
	assert_null(fake_leak());
}
