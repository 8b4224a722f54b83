#include "cli/state_facts.h"

#include "model/config/encoder_config.h"
#include "model/config/kv_layers.h"
#include "model/forward/state_layout.h"

#define INT "%" JSON_INTEGER_FORMAT

static json_int_t fact(const json_t *facts, const char *name)
{
    return json_integer_value(json_object_get(facts, name));
}

void state_facts_add(json_t *facts, const struct model_config *config)
{
    const json_int_t n_layers = kv_layers_recurrent(config);
    if (n_layers > 0)
        json_object_update_new(facts, json_pack("{s:I, s:I}", "recurrent_layers", n_layers,
                                                "recurrent_state_bytes",
                                                (json_int_t)state_layout_bytes(config)));
    if (model_has_encoder(config))
        json_object_set_new(facts, "encoder_layers",
                            json_integer((json_int_t)config->encoder.n_layers));
}

/* A token of an encoder's text has K and V in as many layers as one of the decoder. */
void state_facts_print(const json_t *facts, FILE *out)
{
    if (fact(facts, "recurrent_layers") > 0)
        fprintf(out,
                "state           " INT " of " INT
                " layers have recurrent state and no K and V: " INT
                " bytes a sequence, and each snapshot, in " INT " blocks\n",
                fact(facts, "recurrent_layers"), fact(facts, "layers"),
                fact(facts, "recurrent_state_bytes"), fact(facts, "recurrent_state_blocks"));
    if (fact(facts, "encoder_layers") > 0)
        fprintf(out,
                "encoder         " INT " layers before " INT " of the decoder: " INT
                " bytes of cross K and V a token of the text, %s\n",
                fact(facts, "encoder_layers"), fact(facts, "layers"),
                fact(facts, "kv_bytes_per_token"),
                json_string_value(json_object_get(facts, "kv_dtype")));
}
