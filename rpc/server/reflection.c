/*
 * reflection - see reflection.h: answers one request after the other.
 *
 * The messages of v1 and v1alpha differ only in their package, so both are answered with the types
 * of v1: the row of v1alpha uses v1's descriptors, and the bytes on the wire are the same.
 */
#include "rpc/server/reflection.h"

#include "grpc/reflection/v1/reflection.pb-c.h"
#include "rpc/server/call.h"
#include "rpc/server/descriptor_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_BYTES_MAX  4096
#define STREAMS_MAX        64
#define CODE_NOT_FOUND     5
#define CODE_UNIMPLEMENTED 12

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1__ServerReflectionResponse reflection_response;

struct rpc_reflection {
    struct rpc_descriptor_index *index;
    Grpc__Reflection__V1__ServiceResponse *services; /* n_services, names owned */
    Grpc__Reflection__V1__ServiceResponse **service_list;
    size_t n_services;
    size_t *files;                /* room for all files; only for the queue thread */
    ProtobufCBinaryData *answers; /* the same */
};

static const char *const OWN_SERVICES[] = {
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
};
#define N_OWN_SERVICES (sizeof OWN_SERVICES / sizeof *OWN_SERVICES)

static enum status list_services(struct rpc_reflection *reflection,
                                 const struct rpc_service *services, size_t n_services)
{
    size_t n_all = n_services + N_OWN_SERVICES;
    reflection->services = calloc(n_all, sizeof *reflection->services);
    reflection->service_list = calloc(n_all, sizeof *reflection->service_list);
    if (!reflection->services || !reflection->service_list)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < n_all; i++) {
        if (i < n_services && services[i].is_inner)
            continue; /* only processes of the cluster call these services, without reflection */
        const char *name = i < n_services ? services[i].name : OWN_SERVICES[i - n_services];
        Grpc__Reflection__V1__ServiceResponse *service = &reflection
                                                              ->services[reflection->n_services];
        grpc__reflection__v1__service_response__init(service);
        service->name = strdup(name);
        if (!service->name)
            return STATUS_NO_MEMORY;
        reflection->service_list[reflection->n_services++] = service;
    }
    return STATUS_OK;
}

enum status rpc_reflection_create(const uint8_t *set, size_t n_set,
                                  const struct rpc_service *services, size_t n_services,
                                  struct rpc_reflection **reflection_out)
{
    struct rpc_reflection *reflection = calloc(1, sizeof *reflection);
    if (!reflection)
        return STATUS_NO_MEMORY;
    enum status status = rpc_descriptor_index_create(set, n_set, &reflection->index);
    if (status != STATUS_OK)
        goto fail;
    status = list_services(reflection, services, n_services);
    if (status != STATUS_OK)
        goto fail;
    size_t n_files = rpc_descriptor_index_count(reflection->index);
    reflection->files = calloc(n_files + 1, sizeof *reflection->files);
    reflection->answers = calloc(n_files + 1, sizeof *reflection->answers);
    status = STATUS_NO_MEMORY;
    if (!reflection->files || !reflection->answers)
        goto fail;
    *reflection_out = reflection;
    return STATUS_OK;

fail:
    rpc_reflection_destroy(reflection);
    return status;
}

void rpc_reflection_destroy(struct rpc_reflection *reflection)
{
    if (!reflection)
        return;
    for (size_t i = 0; i < reflection->n_services; i++)
        free(reflection->services[i].name);
    free(reflection->services);
    free(reflection->service_list);
    free(reflection->files);
    free(reflection->answers);
    rpc_descriptor_index_destroy(reflection->index);
    free(reflection);
}

/* The current answer with the messages that it points to. */
struct answer {
    reflection_response response;
    reflection_request original; /* a copy without unknown fields */
    Grpc__Reflection__V1__FileDescriptorResponse files;
    Grpc__Reflection__V1__ListServiceResponse services;
    Grpc__Reflection__V1__ExtensionNumberResponse extensions;
    Grpc__Reflection__V1__ErrorResponse error;
};

static void answer_error(struct answer *answer, int code, char *sentence)
{
    grpc__reflection__v1__error_response__init(&answer->error);
    answer->error.error_code = code;
    answer->error.error_message = sentence;
    answer->response.error_response = &answer->error;
    answer->response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
}

static void answer_file(struct rpc_reflection *reflection, struct answer *answer, size_t file)
{
    if (file == DESCRIPTOR_NONE) {
        answer_error(answer, CODE_NOT_FOUND, "no such file or symbol");
        return;
    }
    size_t n = rpc_descriptor_index_closure(reflection->index, file, reflection->files);
    for (size_t i = 0; i < n; i++) {
        struct rpc_descriptor_file found = rpc_descriptor_index_file(reflection->index,
                                                                     reflection->files[i]);
        reflection->answers[i].data = (uint8_t *)found.bytes; /* packing only reads it */
        reflection->answers[i].len = found.n_bytes;
    }
    grpc__reflection__v1__file_descriptor_response__init(&answer->files);
    answer->files.n_file_descriptor_proto = n;
    answer->files.file_descriptor_proto = reflection->answers;
    answer->response.file_descriptor_response = &answer->files;
    answer->response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
}

static void answer_services(struct rpc_reflection *reflection, struct answer *answer)
{
    grpc__reflection__v1__list_service_response__init(&answer->services);
    answer->services.n_service = reflection->n_services;
    answer->services.service = reflection->service_list;
    answer->response.list_services_response = &answer->services;
    answer->response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
}

/* proto3 has no extensions: the list for an existing type is empty. */
static void answer_extensions(struct rpc_reflection *reflection, struct answer *answer, char *type)
{
    if (rpc_descriptor_index_by_symbol(reflection->index, type) == DESCRIPTOR_NONE) {
        answer_error(answer, CODE_NOT_FOUND, "no such type");
        return;
    }
    grpc__reflection__v1__extension_number_response__init(&answer->extensions);
    answer->extensions.base_type_name = type;
    answer->response.all_extension_numbers_response = &answer->extensions;
    answer->response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
}

static void copy_request(struct answer *answer, const reflection_request *request)
{
    grpc__reflection__v1__server_reflection_request__init(&answer->original);
    answer->original.host = request->host;
    answer->response.valid_host = request->host;
    answer->response.original_request = &answer->original;
    if (request->message_request_case !=
        GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION) {
        answer->original.message_request_case = request->message_request_case;
        answer->original.list_services = request->list_services; /* members share memory */
    }
}

static void reflect(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct rpc_reflection *reflection = service;
    const reflection_request *request = (const reflection_request *)message;
    struct answer answer;
    grpc__reflection__v1__server_reflection_response__init(&answer.response);
    copy_request(&answer, request);

    switch (request->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        answer_services(reflection, &answer);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        answer_file(reflection, &answer,
                    rpc_descriptor_index_by_name(reflection->index, request->file_by_filename));
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        answer_file(
            reflection, &answer,
            rpc_descriptor_index_by_symbol(reflection->index, request->file_containing_symbol));
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
        answer_extensions(reflection, &answer, request->all_extension_numbers_of_type);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
        answer_error(&answer, CODE_NOT_FOUND, "no extensions are declared here");
        break;
    default:
        answer_error(&answer, CODE_UNIMPLEMENTED, "unknown kind of request");
        break;
    }
    (void)!rpc_call_send(call, &answer.response.base); /* after a failure the call has ended */
}

static const struct rpc_method METHODS[N_OWN_SERVICES] = {
    {
        .path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        .kind = RPC_BIDI_STREAM,
        .request = &grpc__reflection__v1__server_reflection_request__descriptor,
        .response = &grpc__reflection__v1__server_reflection_response__descriptor,
        .request_bytes_max = REQUEST_BYTES_MAX,
        .calls_max = STREAMS_MAX,
        .idles = true,
        .handler = reflect,
    },
    {
        .path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        .kind = RPC_BIDI_STREAM,
        .request = &grpc__reflection__v1__server_reflection_request__descriptor,
        .response = &grpc__reflection__v1__server_reflection_response__descriptor,
        .request_bytes_max = REQUEST_BYTES_MAX,
        .calls_max = STREAMS_MAX,
        .idles = true,
        .handler = reflect,
    },
};

void rpc_reflection_services(struct rpc_reflection *reflection, struct rpc_service services_out[2])
{
    for (size_t i = 0; i < N_OWN_SERVICES; i++)
        services_out[i] = (struct rpc_service){
            .name = OWN_SERVICES[i], .methods = &METHODS[i], .n_methods = 1, .arg = reflection};
}
