/*
 * twin_peer - reads and writes messages with the code that protoc-c made, for twin_test.py.
 *
 * A line in, a line out; bytes are hexadecimal, "-" when there are none:
 *
 *     again NAME BYTES     unpacked and packed again; "refused" when it cannot be unpacked
 *     random NAME SEED     a message filled at random, packed
 *
 * NAME is found among what the services take and return, and what those hold.
 */
#include "base/random.h"
#include "proto/kvferry/internal/v1/admin.pb-c.h"
#include "proto/kvferry/internal/v1/context_worker.pb-c.h"
#include "proto/kvferry/internal/v1/generation_worker.pb-c.h"
#include "proto/kvferry/v1/generation.pb-c.h"
#include "proto/kvferry/v1/model.pb-c.h"
#include "proto/vllm/control.pb-c.h"
#include "proto/vllm/grpc/engine/vllm_engine.pb-c.h"
#include "proto/vllm/inference.pb-c.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES (4u << 20)
#define REPEATED_MAX   4

static const ProtobufCServiceDescriptor *const SERVICES[] = {
    &kvferry__v1__generation_service__descriptor,
    &kvferry__v1__model_service__descriptor,
    &kvferry__internal__v1__admin_service__descriptor,
    &kvferry__internal__v1__context_worker_service__descriptor,
    &kvferry__internal__v1__generation_worker_service__descriptor,
    &vllm__control__descriptor,
    &vllm__inference__descriptor,
    &vllm__grpc__engine__vllm_engine__descriptor,
};

static const ProtobufCMessageDescriptor *find_in(const ProtobufCMessageDescriptor *message,
                                                 const char *name)
{
    if (strcmp(message->name, name) == 0)
        return message;
    for (unsigned i = 0; i < message->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->fields[i];
        const ProtobufCMessageDescriptor *found = NULL;
        if (field->type == PROTOBUF_C_TYPE_MESSAGE)
            found = find_in(field->descriptor, name);
        if (found)
            return found;
    }
    return NULL;
}

static const ProtobufCMessageDescriptor *find(const char *name)
{
    const ProtobufCMessageDescriptor *found = NULL;
    for (size_t i = 0; i < sizeof SERVICES / sizeof *SERVICES && !found; i++) {
        for (unsigned k = 0; k < SERVICES[i]->n_methods && !found; k++) {
            found = find_in(SERVICES[i]->methods[k].input, name);
            if (!found)
                found = find_in(SERVICES[i]->methods[k].output, name);
        }
    }
    return found;
}

static void *take(size_t bytes)
{
    void *taken = calloc(1, bytes ? bytes : 1);
    assert(taken);
    return taken;
}

/* ---- a message at random ---- */

static ProtobufCMessage *fill(const ProtobufCMessageDescriptor *descriptor, struct random *random);

/* UTF-8, of 0 .. 7 characters; U+0000 among them when the field may hold it. */
static size_t fill_text(struct random *random, bool may_hold_nul, char text_out[32])
{
    static const char *const CHARACTERS[] = {"a", " ", "\xc3\xa9", "\xe5\x85\x89",
                                             "\xf0\x9f\x99\x82"};
    size_t n = 0;
    for (uint64_t left = random_below(random, 8); left > 0; left--) {
        uint64_t which = random_below(random, may_hold_nul ? 6 : 5);
        const char *character = which < 5 ? CHARACTERS[which] : "";
        size_t bytes = which < 5 ? strlen(character) : 1;
        memcpy(text_out + n, character, bytes);
        n += bytes;
    }
    text_out[n] = '\0';
    return n;
}

static size_t width(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    default:
        return 4;
    }
}

static void fill_value(const ProtobufCFieldDescriptor *field, struct random *random, void *value)
{
    char text[32];
    size_t n;
    uint64_t number = random_below(random, 3) ? random_u64(random) >> random_below(random, 64) : 0;
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        fill_text(random, false, text);
        *(char **)value = strdup(text);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        n = fill_text(random, true, text);
        *(ProtobufCBinaryData *)value = (ProtobufCBinaryData){n, take(n)};
        memcpy(((ProtobufCBinaryData *)value)->data, text, n);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        *(ProtobufCMessage **)value = fill(field->descriptor, random);
        break;
    case PROTOBUF_C_TYPE_INT64: /* any bits are a number, also below */
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        *(uint64_t *)value = number;
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)value = (double)(number % 4096) / 64;
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        *(float *)value = (float)(number % 4096) / 64;
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)value = number & 1;
        break;
    case PROTOBUF_C_TYPE_ENUM:
        *(uint32_t *)value = (uint32_t)(number % 5);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_INT32:
        *(uint32_t *)value = (uint32_t)number;
        break;
    default:
        abort(); /* a type that no message has */
    }
}

static void fill_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                       struct random *random)
{
    char *base = (char *)message;
    void *value = base + field->offset;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t n = random_below(random, REPEATED_MAX);
        *(size_t *)(base + field->quantifier_offset) = n;
        *(void **)value = n ? take(n * width(field->type)) : NULL;
        for (size_t i = 0; i < n; i++)
            fill_value(field, random, *(char **)value + i * width(field->type));
        return;
    }
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        uint32_t *which = (uint32_t *)(base + field->quantifier_offset);
        if (*which != 0)
            return;
        *which = field->id;
    }
    fill_value(field, random, value);
}

static ProtobufCMessage *fill(const ProtobufCMessageDescriptor *descriptor, struct random *random)
{
    ProtobufCMessage *message = take(descriptor->sizeof_message);
    protobuf_c_message_init(descriptor, message);
    for (unsigned i = 0; i < descriptor->n_fields; i++)
        if (random_below(random, 3) > 0)
            fill_field(message, &descriptor->fields[i], random);
    return message;
}

/* ---- lines ---- */

static void print_packed(ProtobufCMessage *message)
{
    size_t n = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = take(n);
    n = protobuf_c_message_pack(message, bytes);
    for (size_t i = 0; i < n; i++)
        printf("%02x", bytes[i]);
    puts(n ? "" : "-");
    free(bytes);
    protobuf_c_message_free_unpacked(message, NULL);
}

static size_t read_hex(const char *text, uint8_t *bytes_out)
{
    size_t n = strcmp(text, "-") == 0 ? 0 : strlen(text) / 2;
    for (size_t i = 0; i < n; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};
        bytes_out[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return n;
}

static void answer(const char *what, const ProtobufCMessageDescriptor *descriptor, const char *text)
{
    if (strcmp(what, "random") == 0) {
        struct random random;
        random_init(&random, strtoull(text, NULL, 10));
        print_packed(fill(descriptor, &random));
        return;
    }
    uint8_t *bytes = take(strlen(text));
    size_t n = read_hex(text, bytes);
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, NULL, n, bytes);
    free(bytes);
    if (message)
        print_packed(message);
    else
        puts("refused");
}

int main(void)
{
    static char line[LINE_MAX_BYTES], text[LINE_MAX_BYTES];
    char what[16], name[128];
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "%15s %127s %s", what, name, text) != 3) /* text is as long as line */
            return EXIT_FAILURE;
        const ProtobufCMessageDescriptor *descriptor = find(name);
        if (descriptor)
            answer(what, descriptor, text);
        else
            puts("unknown");
        fflush(stdout);
    }
    return EXIT_SUCCESS;
}
