/* descriptor_set - embeds the file that protoc wrote; see descriptor_set.h. */
#ifdef __CET__
#include <cet.h> /* marks the file: it has no indirect jumps */
#endif
    .section .rodata
    .global descriptor_set_begin
    .global descriptor_set_end
descriptor_set_begin:
    .incbin DESCRIPTOR_SET_FILE
descriptor_set_end:
    .section .note.GNU-stack, "", %progbits
