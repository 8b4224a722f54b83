#include "model_writer.h"

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

enum { NAME_BYTES = 96, NUMBERS_MAX = 1 << 20, FILE_BYTES_MAX = 1 << 24 };

struct model_writer {
    json_t *header;
    uint16_t *numbers; /* BF16 */
    size_t n;
    struct random random;
};

/* Twelve uniform numbers less six: nearly normal. */
static float normal(struct random *random)
{
    float sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (float)random_below(random, 1u << 16) / 65536.0f;
    return sum;
}

static void add_tensor(struct model_writer *writer, const char *name, json_t *shape, size_t n,
                       float middle, float spread)
{
    const json_int_t from = (json_int_t)(2 * writer->n);
    cr_assert_leq(writer->n + n, NUMBERS_MAX);
    for (size_t i = 0; i < n; i++) {
        const float value = middle + spread * normal(&writer->random);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        writer->numbers[writer->n++] = (uint16_t)(bits >> 16);
    }
    json_object_set_new(writer->header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", "BF16", "shape", shape,
                                  "data_offsets", from, (json_int_t)(2 * writer->n)));
}

void model_writer_add(struct model_writer *writer, const char *name, uint32_t rows,
                      uint32_t columns, float middle, float spread)
{
    json_t *shape = columns ? json_pack("[i, i]", rows, columns) : json_pack("[i]", rows);
    add_tensor(writer, name, shape, (size_t)rows * (columns ? columns : 1), middle, spread);
}

void model_writer_add_conv(struct model_writer *writer, uint32_t layer, const char *name,
                           uint32_t n_channels, uint32_t width)
{
    char whole[NAME_BYTES];
    snprintf(whole, sizeof whole, "model.layers.%u.%s", layer, name);
    add_tensor(writer, whole, json_pack("[i, i, i]", n_channels, 1, width),
               (size_t)n_channels * width, 0, 1 / sqrtf((float)width));
}

void model_writer_add_of_layer(struct model_writer *writer, uint32_t layer, const char *name,
                               uint32_t rows, uint32_t columns)
{
    char whole[NAME_BYTES];
    snprintf(whole, sizeof whole, "model.layers.%u.%s", layer, name);
    if (columns)
        model_writer_add(writer, whole, rows, columns, 0, 1.2f / sqrtf((float)columns));
    else
        model_writer_add(writer, whole, rows, 0, strstr(name, "norm") ? 1 : 0, 0.2f);
}

void model_writer_add_mlp(struct model_writer *writer, uint32_t layer, const char *prefix,
                          uint32_t hidden, uint32_t ffn)
{
    static const char *const NAMES[] = {"gate_proj", "up_proj", "down_proj"};
    char name[NAME_BYTES];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s.%s.weight", prefix, NAMES[i]);
        model_writer_add_of_layer(writer, layer, name, i == 2 ? hidden : ffn,
                                  i == 2 ? ffn : hidden);
    }
}

static void write_weights(const struct model_writer *writer, const char *path)
{
    char *header = json_dumps(writer->header, JSON_COMPACT);
    const uint64_t header_bytes = strlen(header);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(&header_bytes, sizeof header_bytes, 1, file), 1);
    cr_assert_eq(fwrite(header, 1, header_bytes, file), header_bytes);
    cr_assert_eq(fwrite(writer->numbers, sizeof *writer->numbers, writer->n, file), writer->n);
    cr_assert_eq(fclose(file), 0);
    free(header);
}

const char *model_writer_make(const char *config, void (*add_all)(struct model_writer *writer))
{
    static char folder[256];
    struct model_writer writer = {.header = json_object(),
                                  .numbers = malloc(NUMBERS_MAX * sizeof *writer.numbers)};
    cr_assert(writer.header && writer.numbers);
    random_init(&writer.random, 7);
    snprintf(folder, sizeof folder, "%s", in_folder("model"));
    cr_assert_eq(mkdir(folder, 0700), 0);
    write_file(in_folder("model/config.json"), config, strlen(config));
    add_all(&writer);
    write_weights(&writer, in_folder("model/model.safetensors"));
    model_copy_file("tokenizer.json", FILE_BYTES_MAX);
    model_copy_file("tokenizer_config.json", FILE_BYTES_MAX);
    free(writer.numbers);
    json_decref(writer.header);
    return folder;
}
