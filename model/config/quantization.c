#include "model/config/quantization.h"

#include <string.h>
#include <strings.h>

#define SUPPORTED    "supported are fp8, awq, gptq, compressed-tensors, mxfp4 (gpt-oss) and GGUF files"
#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { BITS_MAX = 8, BLOCK_MAX = 1 << 16 };

typedef enum status read_function(const struct json_fields *fields, struct quantization *out);

/* A key with one of some words, in either case; absent: the first one. */
static enum status check_word(const struct json_fields *fields, const char *key,
                              const char *const *words, size_t n_words)
{
    const char *word = words[0];
    TRY(json_fields_string(fields, key, &word));
    for (size_t i = 0; i < n_words; i++)
        if (strcasecmp(word, words[i]) == 0)
            return STATUS_OK;
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: %s is \"%.40s\", which is not supported, only %s%s%s is", fields->file,
                     key, word, words[0], n_words > 1 ? " or " : "", n_words > 1 ? words[1] : "");
}

static enum status read_bits(const struct json_fields *fields, bool may_be_8,
                             struct quantization *out)
{
    TRY(json_fields_require(fields, "bits"));
    TRY(json_fields_u32(fields, "bits", 1, BITS_MAX, &out->bits));
    if (out->bits == 4 || (may_be_8 && out->bits == 8))
        return STATUS_OK;
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: bits is %u, which is not supported, only 4%s", fields->file, out->bits,
                     may_be_8 ? " and 8 are" : " is");
}

static enum status read_awq(const struct json_fields *fields, struct quantization *out)
{
    static const char *const VERSIONS[] = {"gemm"};
    TRY(check_word(fields, "version", VERSIONS, COUNT(VERSIONS)));
    return read_bits(fields, false, out);
}

static enum status read_gptq(const struct json_fields *fields, struct quantization *out)
{
    static const char *const FORMATS[] = {"gptq", "gptq_v2"};
    const char *format = FORMATS[0];
    bool is_marlin = false;
    TRY(check_word(fields, "checkpoint_format", FORMATS, COUNT(FORMATS)));
    TRY(json_fields_string(fields, "checkpoint_format", &format));
    TRY(json_fields_bool(fields, "is_marlin_format", &is_marlin));
    if (is_marlin)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: is_marlin_format is true, which is a layout for GPUs alone",
                         fields->file);
    out->zero_is_less_one = strcasecmp(format, FORMATS[1]) != 0;
    return read_bits(fields, true, out);
}

static enum status read_fp8(const struct json_fields *fields, struct quantization *out)
{
    static const char *const FORMATS[] = {"e4m3"};
    TRY(check_word(fields, "fmt", FORMATS, COUNT(FORMATS)));
    const json_t *size = json_fields_get(fields, "weight_block_size");
    if (!size)
        return STATUS_OK;
    uint32_t rows = 0, columns = 0;
    if (json_array_size(size) != 2 ||
        !json_fields_whole(json_array_get(size, 0), BLOCK_MAX, &rows) ||
        !json_fields_whole(json_array_get(size, 1), BLOCK_MAX, &columns) || rows < 1 ||
        columns < 32 || columns % 32 != 0)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: weight_block_size is not a list of rows (1 to %d) and columns (a "
                         "multiple of 32)",
                         fields->file, BLOCK_MAX);
    out->block_rows = rows;
    out->block_columns = columns;
    return STATUS_OK;
}

static enum status read_compressed(const struct json_fields *fields, struct quantization *out)
{
    static const char *const FORMATS[] = {"pack-quantized", "int-quantized", "float-quantized",
                                          "naive-quantized"};
    const char *format = NULL;
    (void)out;
    TRY(json_fields_require(fields, "format"));
    TRY(json_fields_string(fields, "format", &format));
    for (size_t i = 0; i < COUNT(FORMATS); i++)
        if (strcmp(format, FORMATS[i]) == 0)
            return STATUS_OK;
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: format is \"%.40s\", supported are pack-quantized, int-quantized, "
                     "float-quantized and naive-quantized",
                     fields->file, format);
}

/* What the scales of K and V in the files are for. K and V are cached so only if --kv-dtype asks for it. */
static enum status read_kv_scheme(const struct json_fields *fields, struct quantization *out)
{
    const json_t *object;
    const char *type = "float";
    uint32_t bits = 8;
    TRY(json_fields_object(fields, "kv_cache_scheme", &object));
    if (!object)
        return STATUS_OK;
    const struct json_fields own = {object, "config.json: quantization_config.kv_cache_scheme",
                                    fields->error};
    TRY(json_fields_u32(&own, "num_bits", 1, 64, &bits));
    TRY(json_fields_string(&own, "type", &type));
    out->kv_scheme = bits != 8                  ? KV_SCHEME_OTHER
                     : strcmp(type, "int") == 0 ? KV_SCHEME_INT8
                                                : KV_SCHEME_E4M3;
    return STATUS_OK;
}

static enum status read_mxfp4(const struct json_fields *fields, struct quantization *out)
{
    (void)fields, (void)out;
    return STATUS_OK;
}

static const struct method_row {
    const char *name;
    enum quantization_method method;
    read_function *read;
} METHODS[] = {
    {"mxfp4", QUANTIZATION_MXFP4, read_mxfp4},
    {"fp8", QUANTIZATION_FP8, read_fp8},
    {"fbgemm_fp8", QUANTIZATION_FP8, read_fp8},
    {"awq", QUANTIZATION_AWQ, read_awq},
    {"gptq", QUANTIZATION_GPTQ, read_gptq},
    {"compressed-tensors", QUANTIZATION_COMPRESSED, read_compressed},
};

enum status quantization_read(const struct json_fields *fields,
                              struct quantization *quantization_out)
{
    const json_t *object;
    const char *name = NULL;
    *quantization_out = (struct quantization){.method = QUANTIZATION_NONE};
    TRY(json_fields_object(fields, "quantization_config", &object));
    if (!object)
        return STATUS_OK;
    const struct json_fields own = {object, "config.json: quantization_config", fields->error};
    TRY(read_kv_scheme(&own, quantization_out));
    TRY(json_fields_string(&own, "quant_method", &name));
    if (!name && json_object_get(object, "load_in_4bit"))
        name = "bitsandbytes";
    if (!name)
        return json_fields_require(&own, "quant_method");
    for (size_t i = 0; i < COUNT(METHODS); i++)
        if (strcmp(name, METHODS[i].name) == 0) {
            quantization_out->method = METHODS[i].method;
            return METHODS[i].read(&own, quantization_out);
        }
    if (strcmp(name, "bitsandbytes") == 0)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: quant_method is \"bitsandbytes\", whose NF4 and INT8 are made by its "
                         "own code for GPUs: take the model that it was made of; " SUPPORTED,
                         own.file);
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: quant_method is \"%.60s\", which is not supported; " SUPPORTED, own.file,
                     name);
}
