/* text - a C string as a field that may hold U+0000 (proto/README.md). */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <string.h>

/* Borrows. */
static inline ProtobufCBinaryData text_of(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}
