library_sources += \
	rdma/bell.c rdma/bell.h \
	rdma/event_queue.c rdma/event_queue.h \
	rdma/in_process.c rdma/in_process.h \
	rdma/mailbox.c rdma/mailbox.h \
	rdma/mapping.c rdma/mapping.h \
	rdma/nearness.c rdma/nearness.h \
	rdma/process.c rdma/process.h \
	rdma/region.c rdma/region.h \
	rdma/ring.c rdma/ring.h \
	rdma/self.c \
	rdma/shm.c rdma/shm.h \
	rdma/shm_card.c rdma/shm_card.h \
	rdma/transfer.c rdma/transfer.h \
	rdma/transport.h \
	rdma/transports.c
if HAVE_VERBS
library_sources += \
	rdma/auth.c rdma/auth.h \
	rdma/connect.c rdma/connect.h \
	rdma/frame.c rdma/frame.h \
	rdma/ladder.c rdma/ladder.h \
	rdma/link.c rdma/link.h \
	rdma/patience.c rdma/patience.h \
	rdma/proof.c rdma/proof.h \
	rdma/queue_pair.c rdma/queue_pair.h \
	rdma/queues.c rdma/queues.h \
	rdma/rights.c rdma/rights.h \
	rdma/sendlog.c rdma/sendlog.h \
	rdma/verbs.c \
	rdma/verbs_device.c rdma/verbs_device.h
endif
