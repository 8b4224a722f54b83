/*
 * Prints a completion as it comes: generate ADDRESS PROMPT
 *
 * By gRPC's C core and protobuf-c. Each step of a call is a batch of operations, whose end the completion
 * queue tells. protoc-c knows no `optional`: the build makes files of the same wire format for it
 * (proto/for_c.sed), in which such a field is the only member of a oneof.
 */
#include "proto/kvferry/v1/generation.pb-c.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_MAX 60

/* A batch that failed is told by the call's status in the end. */
static void run(grpc_call *call, grpc_completion_queue *queue, const grpc_op *ops, size_t n)
{
    if (grpc_call_start_batch(call, ops, n, NULL, NULL) != GRPC_CALL_OK)
        abort(); /* a mistake of this program */
    grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
}

static grpc_byte_buffer *pack_request(char *prompt)
{
    Kvferry__V1__SamplingParams sampling = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    sampling
        .max_tokens_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    sampling.max_tokens = 32;
    sampling
        .temperature_presence_case = KVFERRY__V1__SAMPLING_PARAMS__TEMPERATURE_PRESENCE_TEMPERATURE;
    sampling.temperature = 0; /* not left out: 0 */
    Kvferry__V1__GenerateRequest request = KVFERRY__V1__GENERATE_REQUEST__INIT;
    request.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT;
    request.text = (ProtobufCBinaryData){strlen(prompt), (uint8_t *)prompt};
    request.sampling = &sampling;

    grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(&request.base));
    protobuf_c_message_pack(&request.base, GRPC_SLICE_START_PTR(slice));
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return buffer;
}

static void start(grpc_call *call, grpc_completion_queue *queue, char *prompt)
{
    grpc_byte_buffer *message = pack_request(prompt);
    grpc_metadata_array headers;
    grpc_metadata_array_init(&headers);
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
         .data.recv_initial_metadata.recv_initial_metadata = &headers},
    };
    run(call, queue, ops, sizeof ops / sizeof *ops);
    grpc_metadata_array_destroy(&headers);
    grpc_byte_buffer_destroy(message);
}

static bool print_message(grpc_byte_buffer *message)
{
    grpc_byte_buffer_reader reader;
    if (!grpc_byte_buffer_reader_init(&reader, message))
        return false;
    grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    Kvferry__V1__GenerateResponse *response = kvferry__v1__generate_response__unpack(
        NULL, GRPC_SLICE_LENGTH(slice), GRPC_SLICE_START_PTR(slice));
    grpc_slice_unref(slice);
    if (!response)
        return false;
    bool is_written = fwrite(response->text.data, 1, response->text.len, stdout) ==
                          response->text.len &&
                      fflush(stdout) == 0;
    kvferry__v1__generate_response__free_unpacked(response, NULL);
    return is_written;
}

/* Until there are no more, or one cannot be printed, which ends the call. */
static void print_messages(grpc_call *call, grpc_completion_queue *queue)
{
    for (bool is_good = true; is_good;) {
        grpc_byte_buffer *message = NULL;
        run(call, queue,
            &(grpc_op){.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &message}, 1);
        if (!message)
            return;
        is_good = print_message(message);
        grpc_byte_buffer_destroy(message);
        if (!is_good)
            grpc_call_cancel(call, NULL);
    }
}

/* The process's exit status. */
static int finish(grpc_call *call, grpc_completion_queue *queue)
{
    grpc_metadata_array trailers;
    grpc_metadata_array_init(&trailers);
    grpc_status_code code = GRPC_STATUS_UNKNOWN;
    grpc_slice details = grpc_empty_slice();
    run(call, queue,
        &(grpc_op){.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                   .data.recv_status_on_client = {.trailing_metadata = &trailers,
                                                  .status = &code,
                                                  .status_details = &details}},
        1);
    if (code == GRPC_STATUS_OK)
        puts("");
    else
        fprintf(stderr, "gRPC status %d: %.*s\n", (int)code, (int)GRPC_SLICE_LENGTH(details),
                (const char *)GRPC_SLICE_START_PTR(details));
    grpc_slice_unref(details);
    grpc_metadata_array_destroy(&trailers);
    return code == GRPC_STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: generate ADDRESS PROMPT\n");
        return 2;
    }
    grpc_init();
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create(argv[1], credentials, NULL);
    grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
    gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_REALTIME),
                                         gpr_time_from_seconds(SECONDS_MAX, GPR_TIMESPAN));
    grpc_call *call = grpc_channel_create_call(
        channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
        grpc_slice_from_static_string("/kvferry.v1.GenerationService/Generate"), NULL, deadline,
        NULL);

    start(call, queue, argv[2]);
    print_messages(call, queue);
    int exit_status = finish(call, queue);

    grpc_call_unref(call);
    grpc_completion_queue_shutdown(queue);
    grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    grpc_completion_queue_destroy(queue);
    grpc_channel_destroy(channel);
    grpc_channel_credentials_release(credentials);
    grpc_shutdown();
    return exit_status;
}
