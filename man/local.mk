# SPDX-License-Identifier: BSD-3-Clause
dist_man_MANS += \
	man/sluice_accumulator.3 \
	man/sluice_barrier.3 \
	man/sluice_checkpoint.3 \
	man/sluice_digest.3 \
	man/sluice_estimate.3 \
	man/sluice_log_waits.3 \
	man/sluice_hand_over.3 \
	man/sluice_histogram.3 \
	man/sluice_init.3 \
	man/sluice_idle_step.3 \
	man/sluice_model_open.3 \
	man/sluice_plan.3 \
	man/sluice_point.3 \
	man/sluice_push.3 \
	man/sluice_push_vector.3 \
	man/sluice_set.3 \
	man/sluice_region_open.3 \
	man/sluice_select.3 \
	man/sluice_simulate.3 \
	man/sluice_split.3 \
	man/sluice_stats.3 \
	man/sluice_strerror.3 \
	man/sluice_recipe.7 \
	man/sluice-bench.1 \
	man/sluice-info.1 \
	man/sluice-plot.1 \
	man/sluice-top.1
if BUILD_TRAIN
dist_man_MANS += man/sluice-train.1
endif
nodist_man_MANS += man/sluice.7 man/sluice_intro.7 man/sluice_methods.7 man/sluice.conf.5
CLEANFILES += man/sluice.7 man/sluice_intro.7 man/sluice_methods.7 man/sluice.conf.5 man/*.tmp
EXTRA_DIST += man/sluice.7.in man/sluice_intro.7.in man/sluice_methods.7.in man/sluice.conf.5.in man/aliases man/check.sh man/markdown.awk

# Their lists of settings come from the table base/env_table.c.
man/sluice.7: $(srcdir)/man/sluice.7.in base/envdoc$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) man && ./base/envdoc$(EXEEXT) > $@.list.tmp && \
		sed -e '/^@ENVIRONMENT@$$/{' -e 'r $@.list.tmp' -e 'd' -e '}' $(srcdir)/man/sluice.7.in > $@.tmp && \
		mv $@.tmp $@ && rm -f $@.list.tmp
man/sluice.conf.5: $(srcdir)/man/sluice.conf.5.in base/envdoc$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) man && ./base/envdoc$(EXEEXT) conf > $@.list.tmp && \
		sed -e '/^@SETTINGS@$$/{' -e 'r $@.list.tmp' -e 'd' -e '}' -e 's,@sysconfdir@,$(sysconfdir),g' \
		$(srcdir)/man/sluice.conf.5.in > $@.tmp && mv $@.tmp $@ && rm -f $@.list.tmp

# This page is doc/intro.md.
man/sluice_intro.7: $(srcdir)/man/sluice_intro.7.in $(srcdir)/man/markdown.awk $(srcdir)/doc/intro.md
	$(AM_V_at)$(MKDIR_P) man
	$(AM_V_at)$(AWK) -f $(srcdir)/man/markdown.awk $(srcdir)/doc/intro.md > man/intro.tmp
	$(AM_V_GEN)sed -e '/^@PAGE@$$/{' -e 'r man/intro.tmp' -e 'd' -e '}' $(srcdir)/man/sluice_intro.7.in > $@.tmp
	$(AM_V_at)mv $@.tmp $@
	$(AM_V_at)rm -f man/intro.tmp

# The lists of this page come from the tables of runtime/recipe/methods.c.
man/sluice_methods.7: $(srcdir)/man/sluice_methods.7.in runtime/recipe/methodsdoc$(EXEEXT)
	$(AM_V_at)$(MKDIR_P) man
	$(AM_V_at)./runtime/recipe/methodsdoc$(EXEEXT) > man/methods.tmp
	$(AM_V_at)./runtime/recipe/methodsdoc$(EXEEXT) foreign > man/foreign.tmp
	$(AM_V_GEN)sed -e '/^@METHODS@$$/{' -e 'r man/methods.tmp' -e 'd' -e '}' \
		-e '/^@FOREIGN@$$/{' -e 'r man/foreign.tmp' -e 'd' -e '}' $(srcdir)/man/sluice_methods.7.in > $@.tmp
	$(AM_V_at)mv $@.tmp $@
	$(AM_V_at)rm -f man/methods.tmp man/foreign.tmp

# Each name that shares a page gets a link to it; "make install" and "uninstall" call these.
install-man-aliases:
	$(AM_V_at)$(MKDIR_P) "$(DESTDIR)$(man3dir)"
	$(AM_V_at)grep -v '^#' $(srcdir)/man/aliases | while read page alias; do \
		(cd "$(DESTDIR)$(man3dir)" && rm -f "$$alias" && $(LN_S) "$$page" "$$alias") || exit 1; \
	done

uninstall-man-aliases:
	$(AM_V_at)grep -v '^#' $(srcdir)/man/aliases | while read page alias; do \
		rm -f "$(DESTDIR)$(man3dir)/$$alias"; \
	done

.PHONY: install-man-aliases uninstall-man-aliases man-date

# In the release commit, by the maintainer: one date for all pages.
man-date:
	sed -i "s/^\.Dd .*/.Dd $$(LC_ALL=C date '+%B %-d, %Y')/" \
		$(srcdir)/man/*.[137] $(srcdir)/man/*.[57].in

TESTS += man/check.sh
