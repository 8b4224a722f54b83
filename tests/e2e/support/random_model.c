#include "random_model.h"

#include "base/random.h"
#include "command.h"
#include "model_copy.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NAME_BYTES = 96, FILE_BYTES_MAX = 1 << 24, NUMBERS_MAX = 1 << 20 };

struct random_model {
    json_t *header;
    uint16_t *numbers; /* [NUMBERS_MAX] BF16 */
    size_t n;
    struct random random;
};

struct random_model *random_model_create(uint64_t seed)
{
    struct random_model *model = calloc(1, sizeof *model);
    cr_assert(model);
    model->header = json_object();
    model->numbers = malloc(NUMBERS_MAX * sizeof *model->numbers);
    cr_assert(model->header && model->numbers);
    random_init(&model->random, seed);
    return model;
}

/* Twelve uniform numbers less six: nearly normal. */
static float normal(struct random *random)
{
    float sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (float)random_below(random, 1u << 16) / 65536.0f;
    return sum;
}

void random_model_add(struct random_model *model, const char *name, uint32_t rows, uint32_t columns,
                      float middle, float spread)
{
    const size_t n = (size_t)rows * (columns ? columns : 1);
    const json_int_t from = (json_int_t)(2 * model->n);
    cr_assert_leq(model->n + n, NUMBERS_MAX);
    for (size_t i = 0; i < n; i++) {
        const float value = middle + spread * normal(&model->random);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        model->numbers[model->n++] = (uint16_t)(bits >> 16);
    }
    json_t *shape = columns ? json_pack("[i, i]", rows, columns) : json_pack("[i]", rows);
    json_object_set_new(model->header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", "BF16", "shape", shape,
                                  "data_offsets", from, (json_int_t)(2 * model->n)));
}

void random_model_add_layer(struct random_model *model, uint32_t layer, const char *name,
                            uint32_t rows, uint32_t columns)
{
    char whole[NAME_BYTES];
    snprintf(whole, sizeof whole, "model.layers.%u.%s", layer, name);
    if (columns)
        random_model_add(model, whole, rows, columns, 0, 1.2f / sqrtf((float)columns));
    else
        random_model_add(model, whole, rows, 0, strstr(name, "norm") ? 1 : 0, 0.2f);
}

static void write_weights(const struct random_model *model, const char *path)
{
    char *header = json_dumps(model->header, JSON_COMPACT);
    const uint64_t header_bytes = strlen(header);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(&header_bytes, sizeof header_bytes, 1, file), 1);
    cr_assert_eq(fwrite(header, 1, header_bytes, file), header_bytes);
    cr_assert_eq(fwrite(model->numbers, sizeof *model->numbers, model->n, file), model->n);
    cr_assert_eq(fclose(file), 0);
    free(header);
}

const char *random_model_write(struct random_model *model, const char *config)
{
    static char folder[256];
    snprintf(folder, sizeof folder, "%s", in_folder("model"));
    cr_assert_eq(mkdir(folder, 0700), 0);
    write_file(in_folder("model/config.json"), config, strlen(config));
    write_weights(model, in_folder("model/model.safetensors"));
    model_copy_file("tokenizer.json", FILE_BYTES_MAX);
    model_copy_file("tokenizer_config.json", FILE_BYTES_MAX);
    json_decref(model->header);
    free(model->numbers);
    free(model);
    return folder;
}
