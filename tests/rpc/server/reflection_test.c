/* reflection: lists what is served, and answers a file with everything it imports. */
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "tests/rpc/support/probe.h"

#include <stdlib.h>
#include <string.h>

TestSuite(reflection, .timeout = 60);

#define V1      "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define V1ALPHA "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

#define MEMBER(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define ANSWER(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

typedef Grpc__Reflection__V1__ServerReflectionRequest question_message;
typedef Grpc__Reflection__V1__ServerReflectionResponse answer_message;

/* The answer, unpacked again so that it outlives the callback. */
static void keep_answer(void *arg, const ProtobufCMessage *message)
{
    size_t n_bytes = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(n_bytes);
    protobuf_c_message_pack(message, bytes);
    *(answer_message **)arg = grpc__reflection__v1__server_reflection_response__unpack(
        NULL, n_bytes, bytes);
    free(bytes);
}

/* One question on a stream of its own: one message and a half-close, so a server stream will do. */
static answer_message *ask(struct probe *probe, const char *path, question_message *question)
{
    answer_message *answer = NULL;
    struct rpc_error error;
    question->host = "here";
    struct rpc_request request = {
        .path = path,
        .message = &question->base,
        .response = &grpc__reflection__v1__server_reflection_response__descriptor,
        .is_stream = true,
        .deadline_ns = probe_in_ms(PROBE_WAIT_S * 1000),
        .on_message = keep_answer,
        .arg = &answer,
    };
    enum status status = rpc_channel_call_wait(probe->channel, &request, &error);
    cr_assert_eq(status, STATUS_OK, "%s", error.message);
    cr_assert_not_null(answer);
    cr_assert_str_eq(answer->valid_host, "here");
    cr_assert_not_null(answer->original_request);
    return answer;
}

static void drop(answer_message *answer)
{
    grpc__reflection__v1__server_reflection_response__free_unpacked(answer, NULL);
}

static bool lists(const answer_message *answer, const char *name)
{
    cr_assert_eq(answer->message_response_case, ANSWER(LIST_SERVICES_RESPONSE));
    for (size_t i = 0; i < answer->list_services_response->n_service; i++)
        if (strcmp(answer->list_services_response->service[i]->name, name) == 0)
            return true;
    return false;
}

static void check_listing(struct probe *probe, const char *path)
{
    question_message question = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
    question.message_request_case = MEMBER(LIST_SERVICES);
    question.list_services = "";
    answer_message *answer = ask(probe, path, &question);
    cr_assert_eq(answer->list_services_response->n_service, 4);
    cr_assert(lists(answer, "kvferry.probe.Probe"));
    cr_assert(lists(answer, "grpc.health.v1.Health"));
    cr_assert(lists(answer, "grpc.reflection.v1.ServerReflection"));
    cr_assert(lists(answer, "grpc.reflection.v1alpha.ServerReflection"));
    drop(answer);
}

Test(reflection, lists_services_in_both_versions)
{
    struct probe probe;
    probe_start(&probe, NULL);
    check_listing(&probe, V1);
    check_listing(&probe, V1ALPHA);
    probe_stop(&probe);
}

static void expect_files(struct probe *probe, question_message *question, size_t n_files,
                         const char *first)
{
    answer_message *answer = ask(probe, V1, question);
    cr_assert_eq(answer->message_response_case, ANSWER(FILE_DESCRIPTOR_RESPONSE));
    const ProtobufCBinaryData *files = answer->file_descriptor_response->file_descriptor_proto;
    cr_assert_eq(answer->file_descriptor_response->n_file_descriptor_proto, n_files);
    /* A FileDescriptorProto begins with field 1, its name. */
    cr_assert_gt(files[0].len, 2 + strlen(first));
    cr_assert_eq(files[0].data[0], 0x0A);
    cr_assert_eq(memcmp(files[0].data + 2, first, strlen(first)), 0);
    drop(answer);
}

Test(reflection, answers_a_file_with_its_imports)
{
    struct probe probe;
    probe_start(&probe, NULL);
    question_message question = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
    question.message_request_case = MEMBER(FILE_CONTAINING_SYMBOL);
    question.file_containing_symbol = "google.rpc.Status";
    expect_files(&probe, &question, 2, "google/rpc/status.proto");
    question.file_containing_symbol = "grpc.health.v1.Health.Check";
    expect_files(&probe, &question, 1, "grpc/health/v1/health.proto");
    question.message_request_case = MEMBER(FILE_BY_FILENAME);
    question.file_by_filename = "google/rpc/error_details.proto";
    expect_files(&probe, &question, 2, "google/rpc/error_details.proto");
    probe_stop(&probe);
}

static void expect_error(struct probe *probe, question_message *question, int code)
{
    answer_message *answer = ask(probe, V1, question);
    cr_assert_eq(answer->message_response_case, ANSWER(ERROR_RESPONSE));
    cr_assert_eq(answer->error_response->error_code, code);
    drop(answer);
}

Test(reflection, what_is_not_there_is_a_message)
{
    struct probe probe;
    probe_start(&probe, NULL);
    question_message question = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
    expect_error(&probe, &question, 12);
    question.message_request_case = MEMBER(FILE_CONTAINING_SYMBOL);
    question.file_containing_symbol = "no.such.Symbol";
    expect_error(&probe, &question, 5);
    question.message_request_case = MEMBER(FILE_BY_FILENAME);
    question.file_by_filename = "no/such.proto";
    expect_error(&probe, &question, 5);
    question.message_request_case = MEMBER(ALL_EXTENSION_NUMBERS_OF_TYPE);
    question.all_extension_numbers_of_type = "no.such.Type";
    expect_error(&probe, &question, 5);
    Grpc__Reflection__V1__ExtensionRequest extension =
        GRPC__REFLECTION__V1__EXTENSION_REQUEST__INIT;
    question.message_request_case = MEMBER(FILE_CONTAINING_EXTENSION);
    question.file_containing_extension = &extension;
    expect_error(&probe, &question, 5);
    probe_stop(&probe);
}

Test(reflection, a_known_type_has_no_extensions)
{
    struct probe probe;
    probe_start(&probe, NULL);
    question_message question = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
    question.message_request_case = MEMBER(ALL_EXTENSION_NUMBERS_OF_TYPE);
    question.all_extension_numbers_of_type = "google.rpc.Status";
    answer_message *answer = ask(&probe, V1, &question);
    cr_assert_eq(answer->message_response_case, ANSWER(ALL_EXTENSION_NUMBERS_RESPONSE));
    cr_assert_eq(answer->all_extension_numbers_response->n_extension_number, 0);
    cr_assert_str_eq(answer->all_extension_numbers_response->base_type_name, "google.rpc.Status");
    drop(answer);
    probe_stop(&probe);
}
