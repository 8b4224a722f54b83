/*
 * status - the one table of all ways in which kvferry can fail.
 *
 * The enum, the log texts and the gRPC codes come from this table. The groups say who can recover.
 * Codes of libraries are translated where they enter, in one function each (ucx_status,
 * grpc_status, errno_status).
 *
 * Thread: any; the texts are literals, a struct error belongs to its owner.
 */
#pragma once

/*    name               gRPC  reason                text                                        */
#define STATUS_TABLE(X)                                                                            \
    X(OK, 0, "", "ok")                                                                             \
    /* The caller may try again: nothing was changed. */                                           \
    X(NO_BLOCKS, 8, "KV_FULL", "no free KV blocks")                                                \
    X(QUEUE_FULL, 8, "QUEUE_FULL", "the queue is full")                                            \
    X(SHARE_FULL, 8, "SHARE_FULL", "this caller has used its share of the queue")                  \
    X(QUOTA, 8, "QUOTA", "the tenant's quota is used up")                                          \
    X(NOT_READY, 14, "NOT_READY", "not ready yet")                                                 \
    X(LOADING, 14, "LOADING", "the model is still loading")                                        \
    X(DRAINING, 14, "DRAINING", "draining: accepts no new requests")                               \
    X(NO_CONTEXT_WORKER, 14, "NO_CONTEXT_WORKER", "no context worker is ready")                    \
    X(NO_GENERATION_WORKER, 14, "NO_GENERATION_WORKER", "no generation worker is ready")           \
    /* This KV transfer failed: the request may be placed on other workers. */                     \
    X(TRANSFER_FAILED, 14, "KV_TRANSFER_FAILED", "KV transfer failed")                             \
    X(STALE_PEER, 14, "STALE_PEER", "the peer has restarted")                                      \
    X(PEER_LOST, 14, "PEER_LOST", "peer unreachable")                                              \
    X(DEVICE_LOST, 14, "DEVICE_LOST", "the worker's device is lost")                               \
    X(GEOMETRY_MISMATCH, 9, "GEOMETRY_MISMATCH", "the workers have different KV layouts")          \
    X(REVISION_MISMATCH, 9, "PROTOCOL_REVISION", "protocol revisions are not compatible")          \
    X(ADAPTER_MISMATCH, 9, "ADAPTER_MISMATCH", "the worker does not have this adapter")            \
    X(NOT_HELD, 9, "NOT_HELD", "the KV blocks are not reserved for this transfer")                 \
    /* This request failed: a retry cannot help. */                                                \
    X(INVALID_ARGUMENT, 3, "BAD_FIELD", "invalid argument")                                        \
    X(PROMPT_TOO_LONG, 3, "PROMPT_TOO_LONG", "the prompt does not fit into the context window")    \
    X(NO_CHAT_TEMPLATE, 9, "NO_CHAT_TEMPLATE", "the model has no chat template")                   \
    X(TEMPLATE_LIMIT, 8, "TEMPLATE_LIMIT", "the chat template needs more than it may use")         \
    X(CONSTRAINT_UNMET, 9, "CONSTRAINT_UNMET", "no token can meet the constraint")                 \
    X(MODEL_NOT_FOUND, 5, "MODEL_NOT_FOUND", "unknown model")                                      \
    X(DUPLICATE_REQUEST, 6, "DUPLICATE_REQUEST",                                                   \
      "a request with this request_id is still running")                                           \
    X(TIMED_OUT, 4, "DEADLINE", "deadline exceeded")                                               \
    X(CANCELLED, 1, "CANCELLED", "cancelled")                                                      \
    X(LOGITS_NOT_FINITE, 13, "LOGITS_NOT_FINITE", "the model's logits are not finite numbers")     \
    X(REPLY_TOO_LONG, 8, "REPLY_TOO_LONG", "the reply does not fit into one message")              \
    X(SLOW_READER, 8, "SLOW_READER", "the client reads too slowly")                                \
    X(UNIMPLEMENTED, 12, "UNIMPLEMENTED", "unknown method")                                        \
    X(UNAUTHENTICATED, 16, "AUTH", "no valid credentials")                                         \
    X(NOT_ALLOWED, 7, "NOT_ALLOWED", "not allowed with these credentials")                         \
    /* A file or the environment is wrong. */                                                      \
    X(NOT_FOUND, 5, "NOT_FOUND", "no such file or name")                                           \
    X(CORRUPT, 3, "CORRUPT", "malformed data")                                                     \
    X(UNSUPPORTED, 12, "UNSUPPORTED", "not supported")                                             \
    X(IO_FAILED, 14, "IO", "input or output failed")                                               \
    /* This process is in trouble. */                                                              \
    X(NO_MEMORY, 8, "NO_MEMORY", "out of memory")                                                  \
    X(NO_THREAD, 8, "NO_THREAD", "cannot start a thread: check ulimit -u and pids.max")            \
    X(BUG, 13, "BUG", "internal error")

enum status {
#define X(name, grpc, reason, text) STATUS_##name,
    STATUS_TABLE(X)
#undef X
};

#define STATUS_COUNT                          (0 STATUS_TABLE(STATUS_ONE_))
#define STATUS_ONE_(name, grpc, reason, text) +1

/* Makes the compiler refuse an ignored status. */
#define MUST_CHECK __attribute__((warn_unused_result))

/* Returns a failure to the caller; only in functions that have nothing to release. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum status try_status_ = (call);                                                          \
        if (try_status_ != STATUS_OK)                                                              \
            return try_status_;                                                                    \
    } while (0)

const char *status_name(enum status status);   /* "NO_BLOCKS" */
const char *status_text(enum status status);   /* "no free KV blocks" */
const char *status_reason(enum status status); /* ErrorInfo.reason, "" for OK */
int status_grpc_code(enum status status);
const char *status_grpc_name(int grpc_code);        /* "UNAVAILABLE" */
enum status status_from_reason(const char *reason); /* BUG when no row has it */
enum status errno_status(int error_number);

/*
 * A sentence for the person who must fix the cause: which field, which value, which limit.
 * Functions that check input from outside have one as a parameter.
 */
struct error {
    char text[320];
};

/* `return error_set(error, STATUS_CORRUPT, "tensor %s: ...", name)`: writes the sentence and returns
 * the status. error may be NULL. Control characters are replaced by '?'. A macro, so that the
 * compiler sees which status is returned. */
#define error_set(error, status, ...) error_status_((error_write((error), __VA_ARGS__), (status)))

void error_write(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline enum status error_status_(enum status status)
{
    return status;
}
