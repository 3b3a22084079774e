library_sources += \
	runtime/compress/index_coding.c runtime/compress/index_coding.h \
	runtime/compress/message.c runtime/compress/message.h \
	runtime/compress/quantize.c runtime/compress/quantize.h \
	runtime/compress/select.c runtime/compress/select.h \
	runtime/compress/topk.c
