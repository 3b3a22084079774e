# Who am I, and who are my peers.
library_sources += \
	slurm/bootstrap.c slurm/bootstrap.h \
	slurm/bounded.c slurm/bounded.h \
	slurm/callbacks.c \
	slurm/launcher.h \
	slurm/no_launcher.c \
	slurm/pmix_calls.c \
	slurm/record.c slurm/record.h \
	slurm/siblings.c slurm/siblings.h

EXTRA_DIST += slurm/pmix.m4
