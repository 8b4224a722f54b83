#include "api/kvferry_v1/model_service.h"

#include "router/requests/generation_request.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* A card on its way; base: the model's name, of an adapter's card. */
struct card_reply {
    struct model_card card;
    struct model_card_message message;
    char base[PROCESS_NAME_MAX];
};

static void encode(struct card_reply *out)
{
    model_card_encode(&out->card, &out->message);
    out->message.card.base_model = out->base;
}

static void reply_list(struct rpc_call *call, const struct model_card *card,
                       struct card_reply *replies)
{
    Kvferry__V1__ModelCard *models[1 + ADAPTERS_MAX];
    Kvferry__V1__ListModelsResponse response = KVFERRY__V1__LIST_MODELS_RESPONSE__INIT;
    replies[0].card = *card;
    for (uint32_t i = 0; i < card->n_adapters; i++)
        replies[1 + i].card = served_model_adapted(card, i, replies[1 + i].base);
    for (uint32_t i = 0; i <= card->n_adapters; i++) {
        encode(&replies[i]);
        models[i] = &replies[i].message.card;
    }
    response.n_models = 1 + card->n_adapters;
    response.models = models;
    rpc_call_reply(call, &response.base);
}

static void list_models(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    (void)message;
    struct model_service *service = arg;
    struct model_card card = {0};
    if (process_refuses(service->model->process) == STATUS_LOADING)
        snprintf(card.name, sizeof card.name, "%s", service->model->name);
    else
        served_model_card(service->model, &card);
    struct card_reply *replies = calloc(1 + card.n_adapters, sizeof *replies);
    if (replies)
        reply_list(call, &card, replies);
    else
        rpc_call_fail_status(call, STATUS_NO_MEMORY, "%s", status_text(STATUS_NO_MEMORY));
    free(replies);
}

/* Of that name: the model's, or an adapter's. */
static enum status find(const struct model_service *service, const char *name,
                        struct rpc_error *error, struct card_reply *out)
{
    struct model_card card;
    struct adapter_id adapter;
    TRY(served_model_card(service->model, &card));
    TRY(request_find_model(name, "name", service->model->name, &card, error, &adapter));
    const struct adapter_id *found = adapter_ids_find(card.adapters, card.n_adapters, adapter.name);
    out->base[0] = '\0';
    out->card = found ? served_model_adapted(&card, (uint32_t)(found - card.adapters), out->base)
                      : card;
    return STATUS_OK;
}

static void get_model(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct model_service *service = arg;
    const Kvferry__V1__GetModelRequest *request = (const Kvferry__V1__GetModelRequest *)message;
    struct rpc_error error = {0};
    struct card_reply found;
    enum status status = process_refuses(service->model->process);
    if (status == STATUS_OK)
        status = find(service, request->name, &error, &found);
    if (status != STATUS_OK) {
        if (!error.message[0])
            rpc_error_set(&error, status, NULL, NULL, "%s", status_text(status));
        rpc_call_fail(call, &error);
        return;
    }
    encode(&found);
    Kvferry__V1__GetModelResponse response = KVFERRY__V1__GET_MODEL_RESPONSE__INIT;
    response.model = &found.message.card;
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
