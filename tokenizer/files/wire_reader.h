/*
 * wire_reader - the fields of a protobuf message, one after the other (protobuf.dev, "Encoding").
 *
 * Thread: any. Nothing is copied.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

/* What is left of a message. */
struct wire_reader {
    const uint8_t *at;
    const uint8_t *end;
};

struct wire_field {
    uint32_t number;
    enum wire_type type;
    uint64_t value;       /* of VARINT, FIXED64, FIXED32 */
    const uint8_t *bytes; /* [n_bytes] of BYTES */
    size_t n_bytes;
};

/* The next field. False: the message is over, or no message; then is_bad_out says which. */
bool wire_next(struct wire_reader *reader, struct wire_field *field_out, bool *is_bad_out);
