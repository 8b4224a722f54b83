/*
 * served_model - the model that a router serves, as its clients see it.
 *
 * Thread: any, once the process serves.
 */
#pragma once

#include "process/process.h"
#include "router/workers/worker_client.h"

struct served_model {
    struct process *process;
    const char *name;
    const char *tokenizer_digest;   /* hexadecimal; set before process_serving, as workers */
    struct worker_clients *workers; /* which know the rest */
    bool has_chat_template;         /* set before process_serving */
};

/* LOADING, DRAINING are not looked at. NO_GENERATION_WORKER: no worker has told yet; the card has name and digest alone. */
enum status served_model_card(const struct served_model *model, struct model_card *card_out);
/* Of an adapter of the card: the card of the model under its name. base_out [PROCESS_NAME_MAX] gets the model's. */
struct model_card served_model_adapted(const struct model_card *card, uint32_t adapter,
                                       char *base_out);
