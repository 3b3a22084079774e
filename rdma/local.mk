library_sources += \
	rdma/auth.c rdma/auth.h \
	rdma/event_queue.c rdma/event_queue.h \
	rdma/in_process.c rdma/in_process.h \
	rdma/mailbox.c rdma/mailbox.h \
	rdma/huge.c rdma/huge.h \
	rdma/mapping.c rdma/mapping.h \
	rdma/card_list.c rdma/card_list.h \
	rdma/nearness.c rdma/nearness.h \
	rdma/network.c rdma/network.h \
	rdma/card_choice.c rdma/card_choice.h \
	rdma/peer_memory.c rdma/peer_memory.h \
	rdma/process.c rdma/process.h \
	rdma/region.c rdma/region.h \
	rdma/ring.c rdma/ring.h \
	rdma/self.c \
	rdma/shm.c \
	rdma/shm_record.c rdma/shm_record.h \
	rdma/stream.h \
	rdma/transfer.c rdma/transfer.h \
	rdma/transport.h \
	rdma/transports.c \
	rdma/wakeup.c rdma/wakeup.h
if HAVE_LIBFABRIC
library_sources += \
	rdma/ofi.c \
	rdma/ofi_count.c rdma/ofi_count.h \
	rdma/ofi_fabric.c rdma/ofi_fabric.h \
	rdma/ofi_flow.c rdma/ofi_flow.h \
	rdma/ofi_library.c rdma/ofi_library.h \
	rdma/ofi_memory.c rdma/ofi_memory.h \
	rdma/ofi_messages.c rdma/ofi_messages.h \
	rdma/ofi_peer.c rdma/ofi_peer.h \
	rdma/ofi_proof.c rdma/ofi_proof.h \
	rdma/ofi_provider.c rdma/ofi_provider.h \
	rdma/ofi_record.c rdma/ofi_record.h \
	rdma/ofi_table.c rdma/ofi_table.h \
	rdma/ofi_trial.c rdma/ofi_trial.h
endif
if HAVE_VERBS
library_sources += \
	rdma/card_facts.c rdma/card_facts.h \
	rdma/carrier.c rdma/carrier.h \
	rdma/carrier_cm.c \
	rdma/carrier_ud.c \
	rdma/connect.c rdma/connect.h \
	rdma/datagrams.c rdma/datagrams.h \
	rdma/frame.c rdma/frame.h \
	rdma/link.c rdma/link.h \
	rdma/path.c rdma/path.h \
	rdma/pieces.c rdma/pieces.h \
	rdma/proof.c rdma/proof.h \
	rdma/queue_pair.c rdma/queue_pair.h \
	rdma/queues.c rdma/queues.h \
	rdma/register.c rdma/register.h \
	rdma/retry.c rdma/retry.h \
	rdma/rights.c rdma/rights.h \
	rdma/sendlog.c rdma/sendlog.h \
	rdma/verbs.c \
	rdma/verbs_address.c rdma/verbs_address.h \
	rdma/verbs_device.c rdma/verbs_device.h \
	rdma/verbs_route.c rdma/verbs_route.h \
	rdma/verbs_record.c rdma/verbs_record.h \
	rdma/windows.c rdma/windows.h
endif
