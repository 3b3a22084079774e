library_sources += \
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
	rdma/shm_move.c \
	rdma/transfer.c rdma/transfer.h \
	rdma/transport.h \
	rdma/transports.c
if HAVE_VERBS
library_sources += \
	rdma/auth.c rdma/auth.h \
	rdma/connect.c rdma/connect_accept.c rdma/connect_client.c rdma/connect_greet.c \
	rdma/connect_try.c \
	rdma/frame.c rdma/frame.h \
	rdma/ladder.c rdma/ladder.h rdma/ladder_prove.c \
	rdma/loop.c rdma/loop.h \
	rdma/verbs.c rdma/verbs.h \
	rdma/verbs_close.c \
	rdma/verbs_complete.c \
	rdma/verbs_device.c rdma/verbs_device.h \
	rdma/verbs_keys.c \
	rdma/verbs_link.c \
	rdma/verbs_open.c \
	rdma/verbs_poll.c \
	rdma/verbs_post.c \
	rdma/verbs_qpn.c \
	rdma/verbs_register.c rdma/verbs_register.h \
	rdma/verbs_window.c
endif
