#include "api/engine/engine_model.h"

#include "base/json_text.h"
#include "base/regular_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define FILE_BYTES_MAX (1u << 20)

/* A file that is not there is an empty object. */
static enum status read_object(const char *folder, const char *name, json_t **root_out,
                               struct error *error)
{
    char *text;
    size_t bytes;
    enum status status = regular_file_read_in(folder, name, FILE_BYTES_MAX, &text, &bytes, error);
    if (status == STATUS_NOT_FOUND) {
        *root_out = json_object();
        return *root_out ? STATUS_OK : STATUS_NO_MEMORY;
    }
    if (status != STATUS_OK)
        return status;
    status = json_text_parse(text, bytes, name, 0, root_out, error);
    free(text);
    if (status != STATUS_OK || json_is_object(*root_out))
        return status;
    json_decref(*root_out);
    return error_set(error, STATUS_CORRUPT, "%s is no object", name);
}

/* A token's id, also in a document whose integers are real numbers. */
static bool read_id(const json_t *value, int32_t *id_out)
{
    double id = json_is_number(value) ? json_number_value(value) : -1;
    if (!(id >= 0 && id <= INT32_MAX) || id != (double)(int32_t)id)
        return false;
    *id_out = (int32_t)id;
    return true;
}

static void add_eos(struct engine_model *model, const json_t *value)
{
    int32_t id;
    if (read_id(value, &id) && model->n_eos < ENGINE_EOS_MAX &&
        !engine_model_is_eos(model, (uint32_t)id))
        model->eos_ids[model->n_eos++] = id;
}

static void take_eos(struct engine_model *model, const json_t *value)
{
    if (!json_is_array(value)) {
        add_eos(model, value);
        return;
    }
    for (size_t i = 0; i < json_array_size(value); i++)
        add_eos(model, json_array_get(value, i));
}

static void take(struct engine_model *model, const json_t *config, const json_t *generation)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    snprintf(model->type, sizeof model->type, "%s", type ? type : "");
    take_eos(model, json_object_get(generation, "eos_token_id"));
    if (model->n_eos == 0)
        take_eos(model, json_object_get(config, "eos_token_id"));
    (void)read_id(json_object_get(config, "bos_token_id"), &model->bos_id);
    if (!read_id(json_object_get(config, "pad_token_id"), &model->pad_id) &&
        !read_id(json_object_get(generation, "pad_token_id"), &model->pad_id) && model->n_eos > 0)
        model->pad_id = model->eos_ids[0];
}

enum status engine_model_read(const char *folder, struct engine_model *model_out,
                              struct error *error)
{
    json_t *config, *generation;
    struct engine_model model = {0};
    TRY(read_object(folder, "config.json", &config, error));
    enum status status = read_object(folder, "generation_config.json", &generation, error);
    if (status == STATUS_OK) {
        take(&model, config, generation);
        *model_out = model;
        json_decref(generation);
    }
    json_decref(config);
    return status;
}

bool engine_model_is_eos(const struct engine_model *model, uint32_t id)
{
    for (uint32_t i = 0; i < model->n_eos; i++)
        if ((uint32_t)model->eos_ids[i] == id)
            return true;
    return false;
}
