library_sources += \
	rdma/event_queue.c rdma/event_queue.h \
	rdma/mailbox.c rdma/mailbox.h \
	rdma/mapping.c rdma/mapping.h \
	rdma/process.c rdma/process.h \
	rdma/region.c rdma/region.h \
	rdma/ring.c rdma/ring.h \
	rdma/self.c \
	rdma/shm.c rdma/shm.h \
	rdma/shm_card.c rdma/shm_card.h \
	rdma/shm_move.c \
	rdma/transfer.c rdma/transfer.h \
	rdma/transport.h \
	rdma/transports.c
