/* engine_request_fuzz - any bytes as a request of a gateway are refused with a sentence, or become a request of kvferry.v1 that can be
 * packed and read again. The first byte chooses the protocol. */
#include "api/vllm_engine/engine_request.h"
#include "api/vllm_inference/inference_request.h"
#include "rpc/guard.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static const struct rpc_guard_limits LIMITS = {RPC_GUARD_DEPTH_MAX, 4096, RPC_GUARD_UNKNOWN_MAX};
static struct engine_ask ask;

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* As the router keeps it that waits. */
static void check_again(void)
{
    const struct engine_wants *wants = &ask.wants;
    require(strlen(ask.client_id) <= ENGINE_ID_MAX && wants->n_top <= LOGPROBS_MAX);
    require(!wants->is_unary || !wants->is_stream);
    size_t n = kvferry__v1__generate_request__get_packed_size(&ask.request);
    uint8_t *packed = malloc(n + 1);
    require(packed && kvferry__v1__generate_request__pack(&ask.request, packed) == n);
    Kvferry__V1__GenerateRequest *again = kvferry__v1__generate_request__unpack(NULL, n, packed);
    require(again && again->prompt_case == ask.request.prompt_case);
    kvferry__v1__generate_request__free_unpacked(again, NULL);
    free(packed);
}

static void check(enum status status, const struct rpc_error *error)
{
    if (status == STATUS_OK)
        check_again();
    else
        require(status == STATUS_INVALID_ARGUMENT && error->message[0]);
}

static void read_inference(const ProtobufCMessage *message, bool is_unary, struct rpc_error *error)
{
    const struct inference_limits limits = {.is_unary = is_unary, .priority_max = 100};
    check(inference_request_read((const Vllm__GenerateRequest *)message, &limits, &ask, error),
          error);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    struct rpc_arena arena;
    struct rpc_error error = {0};
    ProtobufCMessage *message;
    if (n_bytes == 0)
        return 0;
    bool is_engine = bytes[0] % 3 == 0;
    rpc_arena_init(&arena);
    rpc_arena_reset(&arena, (256u << 10) + 8 * n_bytes);
    if (rpc_guard_unpack(is_engine ? &vllm__grpc__engine__generate_request__descriptor
                                   : &vllm__generate_request__descriptor,
                         bytes + 1, n_bytes - 1, &LIMITS, &arena, &error, &message) == STATUS_OK) {
        if (is_engine)
            check(engine_request_read((const Vllm__Grpc__Engine__GenerateRequest *)message, &ask,
                                      &error),
                  &error);
        else
            read_inference(message, bytes[0] % 3 == 1, &error);
    }
    rpc_arena_finish(&arena);
    return 0;
}
