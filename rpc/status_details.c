/* status_details - see status_details.h: encodes and decodes google.rpc.Status. */
#include "rpc/status_details.h"

#include "base/utf8.h"
#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"
#include "rpc/arena.h"
#include "rpc/guard.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TYPE_PREFIX          "type.googleapis.com/"
#define RETRY_SOON_MS        100  /* a free slot, or another worker, may be available at once */
#define RETRY_LATER_MS       1000 /* a process has to become ready first */
#define METADATA_MAX         6
#define SCOPE_KEY            "scope"
#define SCOPE_CALLER         "caller"
#define DETAIL_BYTES_MAX     1024 /* of one packed detail: our texts are cut far below this */
#define ANY_COUNT_MAX        3
#define DECODED_BYTES_MAX    65536
#define DECODED_ELEMENTS_MAX 64

/* 0: a retry cannot help. */
static uint32_t retry_after_ms(const struct rpc_error *error)
{
    if (!rpc_error_is_retryable(error))
        return 0;
    if (error->retry_after_ms > 0)
        return error->retry_after_ms;
    switch (error->status) {
    case STATUS_LOADING:
    case STATUS_DRAINING:
    case STATUS_NO_CONTEXT_WORKER:
    case STATUS_NO_GENERATION_WORKER:
        return RETRY_LATER_MS;
    default:
        return RETRY_SOON_MS;
    }
}

/* Memory for one packed detail, to which its Any points. */
struct packed_details {
    uint8_t bytes[ANY_COUNT_MAX][DETAIL_BYTES_MAX];
    char type_url[ANY_COUNT_MAX][64];
    Google__Protobuf__Any any[ANY_COUNT_MAX];
    Google__Protobuf__Any *list[ANY_COUNT_MAX];
    size_t n;
};

static void add_detail(struct packed_details *details, const ProtobufCMessage *message)
{
    size_t i = details->n++;
    assert(i < ANY_COUNT_MAX && protobuf_c_message_get_packed_size(message) <= DETAIL_BYTES_MAX);
    google__protobuf__any__init(&details->any[i]);
    int n = snprintf(details->type_url[i], sizeof details->type_url[i], TYPE_PREFIX "%s",
                     message->descriptor->name);
    assert(n > 0 && (size_t)n < sizeof details->type_url[i]);
    details->any[i].type_url = details->type_url[i];
    details->any[i].value.data = details->bytes[i];
    details->any[i].value.len = protobuf_c_message_pack(message, details->bytes[i]);
    details->list[i] = &details->any[i];
}

struct metadata {
    Google__Rpc__ErrorInfo__MetadataEntry entries[METADATA_MAX];
    Google__Rpc__ErrorInfo__MetadataEntry *list[METADATA_MAX];
    size_t n;
};

/* value must live until the message is packed; an empty one is left out. */
static void add_metadata(struct metadata *metadata, char *key, char *value)
{
    if (!value[0])
        return;
    assert(metadata->n < METADATA_MAX);
    Google__Rpc__ErrorInfo__MetadataEntry *entry = &metadata->entries[metadata->n];
    google__rpc__error_info__metadata_entry__init(entry);
    entry->key = key;
    entry->value = value;
    metadata->list[metadata->n++] = entry;
}

static void add_error_info(struct packed_details *details, struct rpc_error *error)
{
    struct metadata metadata = {.n = 0};
    char after_ms[16] = "";
    if (retry_after_ms(error) > 0)
        snprintf(after_ms, sizeof after_ms, "%" PRIu32, retry_after_ms(error));
    add_metadata(&metadata, "request_id", error->request_id);
    add_metadata(&metadata, "retryable", after_ms[0] ? "true" : "false");
    add_metadata(&metadata, "retry_after_ms", after_ms);
    add_metadata(&metadata, "field", error->field);
    if (error->field[0])
        add_metadata(&metadata, "value", error->value);
    bool is_share = error->status == STATUS_SHARE_FULL;
    if (is_share)
        add_metadata(&metadata, SCOPE_KEY, SCOPE_CALLER);

    Google__Rpc__ErrorInfo info = GOOGLE__RPC__ERROR_INFO__INIT;
    char reason[sizeof error->reason];
    rpc_error_copy_text(reason, sizeof reason,
                        status_reason(is_share ? STATUS_QUEUE_FULL : error->status));
    info.reason = reason;
    info.domain = RPC_ERROR_DOMAIN;
    info.metadata = metadata.list;
    info.n_metadata = metadata.n;
    add_detail(details, &info.base);
}

static void add_bad_request(struct packed_details *details, struct rpc_error *error)
{
    Google__Rpc__BadRequest__FieldViolation violation =
        GOOGLE__RPC__BAD_REQUEST__FIELD_VIOLATION__INIT;
    Google__Rpc__BadRequest__FieldViolation *list[1] = {&violation};
    violation.field = error->field;
    violation.description = error->message;
    Google__Rpc__BadRequest bad_request = GOOGLE__RPC__BAD_REQUEST__INIT;
    bad_request.field_violations = list;
    bad_request.n_field_violations = 1;
    add_detail(details, &bad_request.base);
}

static void add_retry_info(struct packed_details *details, uint32_t retry_after_ms)
{
    Google__Protobuf__Duration delay = GOOGLE__PROTOBUF__DURATION__INIT;
    delay.seconds = retry_after_ms / 1000;
    delay.nanos = (int32_t)(retry_after_ms % 1000 * 1000000);
    Google__Rpc__RetryInfo info = GOOGLE__RPC__RETRY_INFO__INIT;
    info.retry_delay = &delay;
    add_detail(details, &info.base);
}

size_t rpc_error_encode(const struct rpc_error *error, uint8_t bytes_out[RPC_STATUS_DETAILS_MAX])
{
    assert(error->status != STATUS_OK);
    struct rpc_error copy = *error; /* protobuf-c's strings are not const */
    struct packed_details details = {.n = 0};
    add_error_info(&details, &copy);
    if (copy.field[0])
        add_bad_request(&details, &copy);
    if (rpc_error_is_retryable(error))
        add_retry_info(&details, retry_after_ms(error));

    Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;
    status.code = status_grpc_code(error->status);
    status.message = copy.message;
    status.n_details = details.n;
    status.details = details.list;
    assert(google__rpc__status__get_packed_size(&status) <= RPC_STATUS_DETAILS_MAX);
    return google__rpc__status__pack(&status, bytes_out);
}

static const struct rpc_guard_limits DETAILS_LIMITS = {
    .depth_max = RPC_GUARD_DEPTH_MAX,
    .elements_max = DECODED_ELEMENTS_MAX,
    .unknown_max = RPC_GUARD_UNKNOWN_MAX,
};

/* NULL: the bytes are no such message. */
static void *unpack(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t n,
                    struct rpc_arena *arena)
{
    struct rpc_error ignored;
    ProtobufCMessage *message;
    enum status status = rpc_guard_unpack(descriptor, bytes, n, &DETAILS_LIMITS, arena, &ignored,
                                          &message);
    return status == STATUS_OK ? message : NULL;
}

static void read_error_info(const Google__Rpc__ErrorInfo *info, struct rpc_error *error)
{
    rpc_error_copy_text(error->reason, sizeof error->reason, info->reason);
    if (strcmp(info->domain, RPC_ERROR_DOMAIN) == 0)
        error->status = status_from_reason(info->reason);
    bool is_full = error->status == STATUS_QUEUE_FULL;
    for (size_t i = 0; i < info->n_metadata; i++) {
        const Google__Rpc__ErrorInfo__MetadataEntry *entry = info->metadata[i];
        if (strcmp(entry->key, "field") == 0)
            rpc_error_copy_text(error->field, sizeof error->field, entry->value);
        else if (strcmp(entry->key, "value") == 0)
            rpc_error_copy_text(error->value, sizeof error->value, entry->value);
        else if (strcmp(entry->key, "request_id") == 0)
            rpc_error_copy_text(error->request_id, sizeof error->request_id, entry->value);
        else if (is_full && strcmp(entry->key, SCOPE_KEY) == 0 &&
                 strcmp(entry->value, SCOPE_CALLER) == 0)
            error->status = STATUS_SHARE_FULL;
    }
    if (error->status == STATUS_SHARE_FULL)
        rpc_error_copy_text(error->reason, sizeof error->reason, status_reason(STATUS_SHARE_FULL));
}

static void read_retry_info(const Google__Rpc__RetryInfo *info, struct rpc_error *error)
{
    if (!info->retry_delay || info->retry_delay->seconds < 0 || info->retry_delay->nanos < 0)
        return;
    uint64_t seconds = (uint64_t)info->retry_delay->seconds;
    uint64_t limit = UINT32_MAX / 1000 - 1;
    uint64_t ms = (seconds < limit ? seconds : limit) * 1000 +
                  (uint64_t)info->retry_delay->nanos / 1000000 % 1000;
    error->retry_after_ms = (uint32_t)ms;
}

static void read_detail(const Google__Protobuf__Any *any, struct rpc_arena *arena,
                        struct rpc_error *error)
{
    const char *slash = strrchr(any->type_url, '/');
    const char *name = slash ? slash + 1 : any->type_url;
    if (strcmp(name, google__rpc__error_info__descriptor.name) == 0) {
        Google__Rpc__ErrorInfo *info = unpack(&google__rpc__error_info__descriptor, any->value.data,
                                              any->value.len, arena);
        if (info)
            read_error_info(info, error);
    } else if (strcmp(name, google__rpc__retry_info__descriptor.name) == 0) {
        Google__Rpc__RetryInfo *info = unpack(&google__rpc__retry_info__descriptor, any->value.data,
                                              any->value.len, arena);
        if (info)
            read_retry_info(info, error);
    }
}

/* The error of a call that its server cut off has no details: its message begins with the reason,
 * "SLOW_READER: client reads too slowly". */
static void read_reason_of_message(struct rpc_error *error)
{
    const char *colon = strchr(error->message, ':');
    size_t length = colon ? (size_t)(colon - error->message) : 0;
    if (length == 0 || length >= sizeof error->reason)
        return;
    char reason[sizeof error->reason] = "";
    memcpy(reason, error->message, length);
    enum status status = status_from_reason(reason);
    if (status_grpc_code(status) != error->grpc_code || strcmp(status_reason(status), reason) != 0)
        return;
    error->status = status;
    memcpy(error->reason, reason, sizeof reason);
}

void rpc_error_decode(int grpc_code, const char *message, size_t message_bytes,
                      const uint8_t *details, size_t n_details, struct rpc_error *error_out)
{
    memset(error_out, 0, sizeof *error_out);
    error_out->grpc_code = grpc_code;
    error_out->status = grpc_status(grpc_code);
    utf8_clean(message, message_bytes, error_out->message, sizeof error_out->message);
    rpc_error_copy_text(error_out->reason, sizeof error_out->reason,
                        status_reason(error_out->status));
    if (error_out->status == STATUS_OK)
        return;
    if (n_details == 0) {
        read_reason_of_message(error_out);
        return;
    }

    struct rpc_arena arena;
    rpc_arena_init(&arena);
    rpc_arena_reset(&arena, DECODED_BYTES_MAX);
    Google__Rpc__Status *status = unpack(&google__rpc__status__descriptor, details, n_details,
                                         &arena);
    for (size_t i = 0; status && i < status->n_details; i++)
        read_detail(status->details[i], &arena, error_out);
    rpc_arena_finish(&arena);
}
