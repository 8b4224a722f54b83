#include "router/served_model.h"

#include <assert.h>
#include <stdio.h>

enum status served_model_card(const struct served_model *model, struct model_card *card_out)
{
    assert(model->workers && "set before the process serves");
    *card_out = (struct model_card){0};
    bool is_known = worker_clients_card(model->workers, card_out);
    /* What clients call the model, and whose tokenizer is used, are the router's to say. */
    snprintf(card_out->name, sizeof card_out->name, "%s", model->name);
    snprintf(card_out->tokenizer_digest, sizeof card_out->tokenizer_digest, "%s",
             model->tokenizer_digest);
    card_out->has_chat_template = model->has_chat_template;
    return is_known ? STATUS_OK : STATUS_NO_GENERATION_WORKER;
}
