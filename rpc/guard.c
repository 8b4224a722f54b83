/* guard - see guard.h. The walk reads the wire bytes in order and recurses at most depth_max deep. */
#include "rpc/guard.h"

#include "base/utf8.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define FIELDS_MAX       256 /* of one message type; asserted for our protos */
#define PATH_BYTES_MAX   96
#define VARINT_BYTES_MAX 10

enum wire_type { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct span {
    const uint8_t *next;
    const uint8_t *end;
};

/* One walk over a message and its sub-messages. */
struct walk {
    const struct rpc_guard_limits *limits;
    uint32_t n_elements;
    uint32_t n_unknown;
    struct rpc_error *error;
};

/* The path from the top message to the present one; on the stack of the walk. */
struct place {
    const struct place *parent;
    const ProtobufCMessageDescriptor *message;
    const ProtobufCFieldDescriptor *field; /* the present field; NULL between fields */
    uint64_t seen[FIELDS_MAX / 64];        /* singular fields seen so far, by index */
    uint32_t depth;
};

/* One field on the wire. */
struct wire_field {
    uint32_t tag;
    uint32_t wire_type;
    struct span bytes; /* for WIRE_BYTES */
};

static size_t write_path(const struct place *place, char *path, size_t path_bytes)
{
    size_t length = place->parent ? write_path(place->parent, path, path_bytes) : 0;
    if (!place->field || length + 1 >= path_bytes)
        return length;
    int n = snprintf(path + length, path_bytes - length, "%s%s", length ? "." : "",
                     place->field->name);
    assert(n >= 0);
    length += (size_t)n;
    return length < path_bytes ? length : path_bytes - 1;
}

static enum status refuse(const struct walk *walk, const struct place *place, const char *what)
{
    char path[PATH_BYTES_MAX] = "";
    write_path(place, path, sizeof path);
    const char *name = path[0] ? path : place->message->name;
    rpc_error_set(walk->error, STATUS_INVALID_ARGUMENT, path, NULL, "%s: %s", name, what);
    return STATUS_INVALID_ARGUMENT;
}

static enum status refuse_count(const struct walk *walk, const struct place *place,
                                const char *what, uint32_t limit)
{
    char sentence[96];
    snprintf(sentence, sizeof sentence, "more than %" PRIu32 " %s", limit, what);
    return refuse(walk, place, sentence);
}

/* Reads a varint. False: cut off, longer than ten bytes, or over 64 bits. */
static bool read_varint(struct span *span, uint64_t *value_out)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < VARINT_BYTES_MAX && span->next < span->end; i++) {
        uint8_t byte = *span->next++;
        value |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (byte < 0x80) {
            *value_out = value;
            return i < VARINT_BYTES_MAX - 1 || byte <= 1;
        }
    }
    return false;
}

static bool skip(struct span *span, size_t n_bytes)
{
    if ((size_t)(span->end - span->next) < n_bytes)
        return false;
    span->next += n_bytes;
    return true;
}

/* Reads tag and value; returns NULL, or what is wrong with them. */
static const char *read_field(struct span *span, struct wire_field *field_out)
{
    uint64_t key, value;
    if (!read_varint(span, &key))
        return "malformed tag";
    if (key > UINT32_MAX || key >> 3 == 0)
        return "tag out of range";
    field_out->tag = (uint32_t)(key >> 3);
    field_out->wire_type = (uint32_t)(key & 7);

    switch (field_out->wire_type) {
    case WIRE_VARINT:
        return read_varint(span, &value) ? NULL : "malformed varint";
    case WIRE_64:
        return skip(span, 8) ? NULL : "cut off";
    case WIRE_32:
        return skip(span, 4) ? NULL : "cut off";
    case WIRE_BYTES:
        if (!read_varint(span, &value) || value > (uint64_t)(span->end - span->next))
            return "length reaches past the end";
        field_out->bytes = (struct span){span->next, span->next + value};
        span->next += value;
        return NULL;
    default:
        return "wire type that is not allowed";
    }
}

/* The wire type of one value of a field's type. */
static uint32_t value_wire_type(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return WIRE_BYTES;
    default:
        return WIRE_VARINT;
    }
}

static enum status add_elements(struct walk *walk, const struct place *place, size_t n)
{
    uint32_t limit = walk->limits->elements_max;
    assert(walk->n_elements <= limit);
    if (n > limit - walk->n_elements)
        return refuse_count(walk, place, "elements", limit);
    walk->n_elements += (uint32_t)n;
    return STATUS_OK;
}

static enum status check_packed(struct walk *walk, const struct place *place, struct span span,
                                uint32_t wire_type)
{
    size_t n_bytes = (size_t)(span.end - span.next);
    if (wire_type != WIRE_VARINT) {
        size_t width = wire_type == WIRE_32 ? 4 : 8;
        if (n_bytes % width != 0)
            return refuse(walk, place, "packed length is no multiple of its width");
        return add_elements(walk, place, n_bytes / width);
    }
    size_t n = 0;
    for (uint64_t value; span.next < span.end; n++)
        if (!read_varint(&span, &value))
            return refuse(walk, place, "malformed packed varint");
    return add_elements(walk, place, n);
}

/* Refuses a second occurrence of a singular field, and a second member of a oneof. */
static enum status check_singular(struct walk *walk, struct place *place)
{
    const ProtobufCMessageDescriptor *message = place->message;
    const ProtobufCFieldDescriptor *field = place->field;
    size_t index = (size_t)(field - message->fields);
    assert(index < message->n_fields);
    if (place->seen[index / 64] >> (index % 64) & 1)
        return refuse(walk, place, "given twice");
    place->seen[index / 64] |= 1ull << (index % 64);

    if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
        return STATUS_OK;
    for (size_t i = 0; i < message->n_fields; i++) {
        const ProtobufCFieldDescriptor *other = &message->fields[i];
        bool is_sibling = i != index && (other->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
                          other->quantifier_offset == field->quantifier_offset;
        if (is_sibling && place->seen[i / 64] >> (i % 64) & 1)
            return refuse(walk, place, "given beside another member of its oneof");
    }
    return STATUS_OK;
}

static enum status check_message(struct walk *walk, struct place *place, struct span span);

/* Checks the content of a string or a sub-message. */
static enum status check_value(struct walk *walk, struct place *place, struct span bytes)
{
    const ProtobufCFieldDescriptor *field = place->field;
    size_t n_bytes = (size_t)(bytes.end - bytes.next);
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        const char *text = (const char *)bytes.next;
        if (utf8_first_invalid(text, n_bytes) != n_bytes || memchr(text, '\0', n_bytes))
            return refuse(walk, place, "not UTF-8, or a NUL inside");
        return STATUS_OK;
    }
    if (field->type != PROTOBUF_C_TYPE_MESSAGE)
        return STATUS_OK;
    if (place->depth >= walk->limits->depth_max)
        return refuse_count(walk, place, "levels of messages", walk->limits->depth_max);
    struct place below = {.parent = place, .message = field->descriptor, .depth = place->depth + 1};
    return check_message(walk, &below, bytes);
}

static enum status check_field(struct walk *walk, struct place *place,
                               const struct wire_field *wire)
{
    const ProtobufCFieldDescriptor *field = place->field;
    uint32_t expected = value_wire_type(field->type);
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        if (wire->wire_type == WIRE_BYTES && expected != WIRE_BYTES)
            return check_packed(walk, place, wire->bytes, expected);
        TRY(add_elements(walk, place, 1));
    } else {
        TRY(check_singular(walk, place));
    }
    if (wire->wire_type != expected)
        return refuse(walk, place, "wire type does not fit the field");
    return expected == WIRE_BYTES ? check_value(walk, place, wire->bytes) : STATUS_OK;
}

static enum status check_message(struct walk *walk, struct place *place, struct span span)
{
    assert(place->message->n_fields <= FIELDS_MAX);
    while (span.next < span.end) {
        struct wire_field wire = {.tag = 0};
        const char *wrong = read_field(&span, &wire);
        const ProtobufCFieldDescriptor *field = place->field;
        if (!field || field->id != wire.tag)
            field = protobuf_c_message_descriptor_get_field(place->message, wire.tag);
        place->field = field; /* set early, so that the error also names a field that is cut off */
        if (wrong)
            return refuse(walk, place, wrong);
        if (!field) {
            if (++walk->n_unknown > walk->limits->unknown_max)
                return refuse_count(walk, place, "unknown fields", walk->limits->unknown_max);
            continue;
        }
        TRY(check_field(walk, place, &wire));
    }
    return STATUS_OK;
}

enum status rpc_guard_check(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes,
                            size_t n_bytes, const struct rpc_guard_limits *limits,
                            struct rpc_error *error)
{
    struct walk walk = {.limits = limits, .error = error};
    struct place top = {.message = descriptor};
    if (n_bytes == 0)
        return STATUS_OK;
    return check_message(&walk, &top, (struct span){bytes, bytes + n_bytes});
}

enum status rpc_guard_unpack(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes,
                             size_t n_bytes, const struct rpc_guard_limits *limits,
                             struct rpc_arena *arena, struct rpc_error *error,
                             ProtobufCMessage **message_out)
{
    TRY(rpc_guard_check(descriptor, bytes, n_bytes, limits, error));
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &arena->allocator, n_bytes,
                                                          bytes);
    if (!message) {
        rpc_error_set(error, STATUS_INVALID_ARGUMENT, NULL, NULL,
                      "%s: needs more than %zu bytes of memory", descriptor->name,
                      arena->total_bytes_max);
        return STATUS_INVALID_ARGUMENT;
    }
    *message_out = message;
    return STATUS_OK;
}
