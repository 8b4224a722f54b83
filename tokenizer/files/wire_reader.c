#include "tokenizer/files/wire_reader.h"

#define VARINT_BYTES_MAX 10

static bool read_varint(struct wire_reader *reader, uint64_t *value_out)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < VARINT_BYTES_MAX && reader->at < reader->end; i++) {
        uint8_t byte = *reader->at++;
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *value_out = value;
            return true;
        }
    }
    return false;
}

static bool read_fixed(struct wire_reader *reader, unsigned n_bytes, uint64_t *value_out)
{
    uint64_t value = 0;

    if ((size_t)(reader->end - reader->at) < n_bytes)
        return false;
    for (unsigned i = 0; i < n_bytes; i++)
        value |= (uint64_t)reader->at[i] << (8 * i);
    reader->at += n_bytes;
    *value_out = value;
    return true;
}

static bool read_bytes(struct wire_reader *reader, struct wire_field *field)
{
    uint64_t n_bytes;

    if (!read_varint(reader, &n_bytes) || n_bytes > (size_t)(reader->end - reader->at))
        return false;
    field->bytes = reader->at;
    field->n_bytes = (size_t)n_bytes;
    reader->at += n_bytes;
    return true;
}

static bool read_value(struct wire_reader *reader, struct wire_field *field)
{
    switch (field->type) {
    case WIRE_VARINT:
        return read_varint(reader, &field->value);
    case WIRE_FIXED64:
        return read_fixed(reader, 8, &field->value);
    case WIRE_BYTES:
        return read_bytes(reader, field);
    case WIRE_FIXED32:
        return read_fixed(reader, 4, &field->value);
    }
    return false; /* groups, which nobody writes any more */
}

bool wire_next(struct wire_reader *reader, struct wire_field *field_out, bool *is_bad_out)
{
    uint64_t tag;

    *field_out = (struct wire_field){0};
    *is_bad_out = false;
    if (reader->at == reader->end)
        return false;
    if (read_varint(reader, &tag) && tag >> 3 > 0 && tag >> 3 < 1u << 29) {
        field_out->number = (uint32_t)(tag >> 3);
        field_out->type = (enum wire_type)(tag & 7);
        if (read_value(reader, field_out))
            return true;
    }
    *is_bad_out = true;
    return false;
}
