#include "api/kvferry_v1/generation_service.h"

#include "router/requests/generation_request.h"

#include <assert.h>

/* Token ids in one message: what 4 MiB of them hold. */
#define IDS_MAX (1u << 20)

static struct v1_call *begin(struct generation_service *service, struct rpc_call *rpc,
                             bool is_whole, uint32_t n_choices)
{
    struct v1_call *call = v1_call_create(rpc, is_whole, n_choices, &service->scratch,
                                          service->texts.reply_bytes_max);
    if (!call)
        rpc_call_fail_status(rpc, STATUS_NO_MEMORY, "%s", status_text(STATUS_NO_MEMORY));
    return call;
}

static void end(struct v1_call *call)
{
    call->door.base.ops->release(&call->door.base);
}

/* ---- Generate, Complete ---- */

/* What is asked for is judged later. */
static uint32_t n_choices(const Kvferry__V1__GenerateRequest *request)
{
    uint32_t n = request->sampling && request->sampling->n > 0 ? request->sampling->n : 1;
    return n < CHOICES_MAX ? n : CHOICES_MAX;
}

static uint32_t n_prompt_logprobs(const Kvferry__V1__GenerateRequest *request)
{
    uint32_t n = request->sampling ? request->sampling->prompt_logprobs : 0;
    return n < LOGPROBS_MAX ? n : LOGPROBS_MAX;
}

static void take(struct generation_service *service, struct rpc_call *rpc,
                 const ProtobufCMessage *message, bool is_whole)
{
    const Kvferry__V1__GenerateRequest *request = (const Kvferry__V1__GenerateRequest *)message;
    struct v1_call *call = begin(service, rpc, is_whole, is_whole ? n_choices(request) : 0);
    if (!call)
        return;
    call->scores.n_top = n_prompt_logprobs(request);
    if (!is_whole && request->sampling && request->sampling->beam_width > 1)
        rpc_call_keeps(rpc, service->texts.reply_bytes_max); /* all replies come at once */
    intake_generate(service->intake, &call->door.base, request);
    end(call);
}

static void generate(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    take(arg, rpc, message, false);
}

static void complete(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    take(arg, rpc, message, true);
}

/* ---- Tokenize, Detokenize ---- */

static void serve_tokenize(void *arg, const struct arrival *arrival)
{
    text_calls_tokenize(arg, (struct v1_call *)arrival->call, arrival->message);
}

static void serve_detokenize(void *arg, const struct arrival *arrival)
{
    text_calls_detokenize(arg, (struct v1_call *)arrival->call, arrival->message);
}

static void take_text(struct generation_service *service, struct rpc_call *rpc,
                      const ProtobufCMessage *message, const char *model,
                      void (*serve)(void *arg, const struct arrival *arrival))
{
    struct rpc_error error = {0};
    struct v1_call *call = begin(service, rpc, true, 0);
    if (!call)
        return;
    const struct arrival arrival = {.call = &call->door.base,
                                    .message = message,
                                    .needs = EARLY_TOKENIZER,
                                    .serve = serve,
                                    .arg = &service->texts};
    enum status status = intake_check_model(service->intake, model, "model", &error);
    if (status == STATUS_OK)
        intake_serve(service->intake, &arrival);
    else
        intake_fail(service->intake, &call->door.base, status, &error);
    end(call);
}

static void tokenize(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    const Kvferry__V1__TokenizeRequest *request = (const Kvferry__V1__TokenizeRequest *)message;
    take_text(arg, rpc, message, request->model, serve_tokenize);
}

static void detokenize(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    const Kvferry__V1__DetokenizeRequest *request = (const Kvferry__V1__DetokenizeRequest *)message;
    take_text(arg, rpc, message, request->model, serve_detokenize);
}

struct rpc_service generation_service_row(struct generation_service *service)
{
    static const struct rpc_method METHODS[] = {
        {.path = "/kvferry.v1.GenerationService/Generate",
         .kind = RPC_SERVER_STREAM,
         .request = &kvferry__v1__generate_request__descriptor,
         .response = &kvferry__v1__generate_response__descriptor,
         .elements_max = IDS_MAX,
         .handler = generate},
        {.path = "/kvferry.v1.GenerationService/Complete",
         .kind = RPC_UNARY,
         .request = &kvferry__v1__generate_request__descriptor, /* has the same fields */
         .response = &kvferry__v1__complete_response__descriptor,
         .elements_max = IDS_MAX,
         .handler = complete},
        {.path = "/kvferry.v1.GenerationService/Tokenize",
         .kind = RPC_UNARY,
         .request = &kvferry__v1__tokenize_request__descriptor,
         .response = &kvferry__v1__tokenize_response__descriptor,
         .handler = tokenize},
        {.path = "/kvferry.v1.GenerationService/Detokenize",
         .kind = RPC_UNARY,
         .request = &kvferry__v1__detokenize_request__descriptor,
         .response = &kvferry__v1__detokenize_response__descriptor,
         .elements_max = IDS_MAX,
         .handler = detokenize},
    };
    return (struct rpc_service){
        .name = "kvferry.v1.GenerationService",
        .methods = METHODS,
        .n_methods = sizeof METHODS / sizeof *METHODS,
        .arg = service,
    };
}
