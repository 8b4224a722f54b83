#include "model_copy.h"

#include "command.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_BYTES_MAX = 64 << 20 };

static void copy_file(const char *folder, const char *name, size_t limit)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    char *bytes = malloc(limit);
    cr_assert_not_null(bytes);
    size_t n = fread(bytes, 1, limit, file);
    fclose(file);
    snprintf(path, sizeof path, "%s/model/%s", command_folder, name);
    write_file(path, bytes, n);
    free(bytes);
}

void model_copy_file(const char *name, size_t limit)
{
    copy_file(KVFERRY_DEMO_MODEL, name, limit);
}

void model_copy_take(const char *folder, const char *name)
{
    copy_file(folder, name, FILE_BYTES_MAX);
}

void model_copy_make(void)
{
    cr_assert_eq(mkdir(in_folder("model"), 0700), 0);
    model_copy_file("config.json", FILE_BYTES_MAX);
    model_copy_file("tokenizer.json", FILE_BYTES_MAX);
    model_copy_file("tokenizer_config.json", FILE_BYTES_MAX);
    model_copy_file("model.safetensors", FILE_BYTES_MAX);
}

/* Where a BF16 tensor's bytes are in the file, and how many. */
static long place_of(FILE *file, const char *tensor, long *n_bytes_out)
{
    uint64_t header_bytes;
    json_error_t error;
    cr_assert_eq(fread(&header_bytes, sizeof header_bytes, 1, file), 1);
    json_t *header = json_loadf(file, JSON_DISABLE_EOF_CHECK, &error);
    const json_t *offsets = json_object_get(json_object_get(header, tensor), "data_offsets");
    cr_assert_not_null(offsets, "%s", tensor);
    json_int_t from = json_integer_value(json_array_get(offsets, 0));
    json_int_t to = json_integer_value(json_array_get(offsets, 1));
    json_decref(header);
    *n_bytes_out = (long)(to - from);
    return (long)(sizeof header_bytes + header_bytes) + (long)from;
}

/* Open for changes. */
static FILE *open_weights(void)
{
    FILE *file = fopen(in_folder("model/model.safetensors"), "r+");
    cr_assert_not_null(file);
    return file;
}

static void put_bf16(FILE *file, long at, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t half = (uint16_t)(bits >> 16);
    cr_assert_eq(fseek(file, at, SEEK_SET), 0);
    cr_assert_eq(fwrite(&half, sizeof half, 1, file), 1);
}

void model_copy_set(const char *tensor, uint32_t n, float value)
{
    FILE *file = open_weights();
    long n_bytes;
    const long at = place_of(file, tensor, &n_bytes);
    cr_assert_lt(2 * (long)n, n_bytes);
    put_bf16(file, at + 2 * (long)n, value);
    cr_assert_eq(fclose(file), 0);
}

void model_copy_overflow(uint32_t token)
{
    json_t *config = json_load_file(in_folder("model/config.json"), 0, NULL);
    const long hidden = (long)json_integer_value(json_object_get(config, "hidden_size"));
    FILE *file = open_weights();
    long n_bytes;
    const long at = place_of(file, "model.embed_tokens.weight", &n_bytes);
    for (long i = 0; i * 2 * hidden < n_bytes; i++)
        put_bf16(file, at + i * 2 * hidden, i == (long)token ? 10 : 0);
    cr_assert_eq(fclose(file), 0);
    json_decref(config);
    model_copy_set("model.layers.0.self_attn.v_proj.weight", 0, 3e38f);
}

void model_copy_flip(const char *tensor)
{
    FILE *file = open_weights();
    long n_bytes;
    long at = place_of(file, tensor, &n_bytes);
    at += n_bytes / 4 * 2 + 1;
    cr_assert_eq(fseek(file, at, SEEK_SET), 0);
    int byte = getc(file);
    cr_assert(byte != EOF && fseek(file, at, SEEK_SET) == 0 && putc(byte ^ 0x40, file) != EOF);
    cr_assert_eq(fclose(file), 0);
}

void model_copy_widen_heads(void)
{
    static const char *const keys[] = {"num_attention_heads", "num_key_value_heads"};
    json_t *config = json_load_file(in_folder("model/config.json"), 0, NULL);
    cr_assert_not_null(config);
    for (int i = 0; i < 2; i++) {
        json_int_t n = json_integer_value(json_object_get(config, keys[i]));
        cr_assert(n % 2 == 0);
        cr_assert_eq(json_object_set_new(config, keys[i], json_integer(n / 2)), 0);
    }
    cr_assert_eq(json_object_set_new(config, "head_dim", json_integer(64)), 0);
    cr_assert_eq(json_dump_file(config, in_folder("model/config.json"), 0), 0);
    json_decref(config);
}
