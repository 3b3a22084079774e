# Unit tests of runtime/.
include $(top_srcdir)/tests/unit/checkpoint.mk
