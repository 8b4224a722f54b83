#include "api/kvferry_v1/model_service.h"

#include "router/requests/generation_request.h"

#include <assert.h>
#include <stdio.h>

static void list_models(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    (void)message;
    struct model_service *service = arg;
    struct model_card card = {0};
    struct model_card_message model;
    if (process_refuses(service->model->process) == STATUS_LOADING)
        snprintf(card.name, sizeof card.name, "%s", service->model->name);
    else
        served_model_card(service->model, &card);
    model_card_encode(&card, &model);
    Kvferry__V1__ModelCard *models[] = {&model.card};
    Kvferry__V1__ListModelsResponse response = KVFERRY__V1__LIST_MODELS_RESPONSE__INIT;
    response.n_models = 1;
    response.models = models;
    rpc_call_reply(call, &response.base);
}

static void get_model(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct model_service *service = arg;
    const Kvferry__V1__GetModelRequest *request = (const Kvferry__V1__GetModelRequest *)message;
    struct rpc_error error = {0};
    struct model_card card;
    enum status status = process_refuses(service->model->process);
    if (status != STATUS_LOADING)
        status = request_check_model(request->name, "name", service->model->name, &error);
    if (status == STATUS_OK)
        status = served_model_card(service->model, &card);
    if (status != STATUS_OK) {
        if (!error.message[0])
            rpc_error_set(&error, status, NULL, NULL, "%s", status_text(status));
        rpc_call_fail(call, &error);
        return;
    }
    struct model_card_message model;
    model_card_encode(&card, &model);
    Kvferry__V1__GetModelResponse response = KVFERRY__V1__GET_MODEL_RESPONSE__INIT;
    response.model = &model.card;
    rpc_call_reply(call, &response.base);
}

struct rpc_service model_service_row(struct model_service *service)
{
    static const struct rpc_method METHODS[] = {
        {.path = "/kvferry.v1.ModelService/ListModels",
         .kind = RPC_UNARY,
         .request = &kvferry__v1__list_models_request__descriptor,
         .response = &kvferry__v1__list_models_response__descriptor,
         .request_bytes_max = 4096,
         .handler = list_models},
        {.path = "/kvferry.v1.ModelService/GetModel",
         .kind = RPC_UNARY,
         .request = &kvferry__v1__get_model_request__descriptor,
         .response = &kvferry__v1__get_model_response__descriptor,
         .request_bytes_max = 4096,
         .handler = get_model},
    };
    return (struct rpc_service){
        .name = "kvferry.v1.ModelService",
        .methods = METHODS,
        .n_methods = sizeof METHODS / sizeof *METHODS,
        .arg = service,
    };
}
