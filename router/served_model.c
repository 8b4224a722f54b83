#include "router/served_model.h"

#include <assert.h>
#include <stdio.h>

struct model_card served_model_adapted(const struct model_card *card, uint32_t adapter,
                                       char *base_out)
{
    struct model_card adapted = *card;
    assert(adapter < card->n_adapters);
    snprintf(base_out, PROCESS_NAME_MAX, "%s", card->name);
    snprintf(adapted.name, sizeof adapted.name, "%s", card->adapters[adapter].name);
    adapted.n_adapters = 1;
    adapted.adapters[0] = card->adapters[adapter];
    return adapted;
}

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
