# Tests under a real Slurm; not part of check, because they need its daemons and minutes.
EXTRA_DIST += tests/other_version tests/cluster/run tests/cluster/lib.sh \
	tests/cluster/beside_mpi.c \
	tests/cluster/test_accounting.sh \
	tests/cluster/test_accuracy.sh \
	tests/cluster/test_async.sh \
	tests/cluster/test_bad_input.sh \
	tests/cluster/test_continue.sh \
	tests/cluster/test_bench.sh \
	tests/cluster/test_idle.sh \
	tests/cluster/test_info.sh \
	tests/cluster/test_intro.sh \
	tests/cluster/test_kill.sh \
	tests/cluster/test_kill_early.sh \
	tests/cluster/test_methods.sh \
	tests/cluster/test_metrics.sh \
	tests/cluster/test_mpi.sh \
	tests/cluster/test_no_pmix.sh \
	tests/cluster/test_other_user.sh \
	tests/cluster/test_resume.sh \
	tests/cluster/test_secret.sh \
	tests/cluster/test_slow.sh \
	tests/cluster/test_slurm.sh \
	tests/cluster/test_stop.sh \
	tests/cluster/test_top.sh \
	tests/cluster/test_torch.sh \
	tests/cluster/test_train_digest.sh \
	tests/cluster/test_union.sh \
	tests/cluster/test_versions.sh

.PHONY: check-slurm
check-slurm: all
	$(top_srcdir)/tests/cluster/run -b $(abs_builddir)
