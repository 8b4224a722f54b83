/*
 * descriptor_set - the serialized FileDescriptorSet of every .proto here, with all imports.
 *
 * Bytes descriptor_set_begin .. descriptor_set_end - 1, in read-only data.
 */
#pragma once

#include <stdint.h>

extern const uint8_t descriptor_set_begin[];
extern const uint8_t descriptor_set_end[];
