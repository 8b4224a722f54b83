#include "model/weights/quantized_files.h"

#include "model/weights/quantized_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 160, WORD_BITS = 32, GROUP_STEP = 32 };

static const char WEIGHT[] = ".weight";

/* One matrix. */
struct search {
    struct weight_binding *binding;
    char base[NAME_BYTES]; /* the name without ".weight" */
    uint32_t n_out, n_in;  /* in the files */
    struct tensor *tensor; /* its source says which rows it has */
    struct error *error;
};

static const struct weight_entry *find(const struct search *search, const char *ending)
{
    char name[NAME_BYTES + 32];
    snprintf(name, sizeof name, "%s%s", search->base, ending);
    return weight_files_find(search->binding->files, name);
}

static enum status refuse(const struct search *search, const struct weight_entry *entry,
                          enum status status, const char *why)
{
    return error_set(search->error, status, "%.60s: tensor %.120s %s", entry->shard->name,
                     entry->tensor->name, why);
}

static enum status say_missing(const struct search *search, const char *ending)
{
    return error_set(search->error, STATUS_CORRUPT, "tensor %.120s%s is missing", search->base,
                     ending);
}

static void use(const struct search *search, const struct weight_entry *entry)
{
    search->binding->is_used[entry - search->binding->files->entries] = true;
}

static enum status check_matrix(const struct search *search, const struct weight_entry *entry,
                                enum safetensors_dtype dtype, uint64_t rows, uint64_t columns)
{
    const struct safetensor *tensor = entry->tensor;
    if (tensor->dtype == dtype && tensor->n_dims == 2 && tensor->shape[0] == rows &&
        tensor->shape[1] == columns)
        return STATUS_OK;
    char why[128];
    snprintf(why, sizeof why, "is not %s of shape [%" PRIu64 ", %" PRIu64 "]",
             safetensors_dtype_name(dtype), rows, columns);
    return refuse(search, entry, STATUS_CORRUPT, why);
}

static enum status set_scales(const struct search *search, const struct weight_entry *entry)
{
    struct quantized_source *source = &search->tensor->source.quantized;
    source->scales = entry->tensor->data;
    use(search, entry);
    switch (entry->tensor->dtype) {
    case SAFETENSORS_F32:
        source->scale_dtype = DTYPE_F32;
        return STATUS_OK;
    case SAFETENSORS_F16:
        source->scale_dtype = DTYPE_F16;
        return STATUS_OK;
    case SAFETENSORS_BF16:
        source->scale_dtype = DTYPE_BF16;
        return STATUS_OK;
    default:
        return refuse(search, entry, STATUS_UNSUPPORTED, "is not F32, F16 or BF16");
    }
}

/* The elements of a group, from the number of groups that the scales have. */
static enum status set_group(const struct search *search, const struct weight_entry *scales,
                             uint64_t n_groups)
{
    const uint64_t group = n_groups > 0 ? search->n_in / n_groups : 0;
    if (group > 0 && group * n_groups == search->n_in && group % GROUP_STEP == 0) {
        search->tensor->source.quantized.group = (uint32_t)group;
        return STATUS_OK;
    }
    char why[160];
    snprintf(why, sizeof why,
             "has %" PRIu64 " groups of rows of %u elements: groups must be a multiple of %d "
             "elements",
             n_groups, search->n_in, GROUP_STEP);
    return refuse(search, scales, STATUS_UNSUPPORTED, why);
}

static int32_t int_at(const uint8_t *numbers, size_t i)
{
    int32_t number;
    memcpy(&number, numbers + i * sizeof number, sizeof number);
    return number;
}

/* Groups that come in order need no list. */
static enum status set_groups(const struct search *search, const struct weight_entry *entry)
{
    struct quantized_source *source = &search->tensor->source.quantized;
    if (!entry)
        return STATUS_OK;
    const struct safetensor *tensor = entry->tensor;
    if (tensor->dtype != SAFETENSORS_I32 || tensor->n_dims != 1 || tensor->shape[0] != search->n_in)
        return refuse(search, entry, STATUS_CORRUPT, "is not I32 with a number for each column");
    use(search, entry);
    const int32_t n_groups = (int32_t)(search->n_in / source->group);
    bool is_in_order = true;
    for (uint32_t k = 0; k < search->n_in; k++) {
        const int32_t group = int_at(tensor->data, k);
        if (group < 0 || group >= n_groups)
            return refuse(search, entry, STATUS_CORRUPT, "has a group that has no scale");
        is_in_order = is_in_order && (uint32_t)group == k / source->group;
    }
    source->groups = is_in_order ? NULL : tensor->data;
    return STATUS_OK;
}

/* The type in memory, and what it takes there. */
static void set_type(const struct search *search, const uint8_t *data, enum dtype dtype)
{
    struct tensor *tensor = search->tensor;
    const uint64_t n = (uint64_t)tensor->n_out * tensor->n_in;
    tensor->data = data; /* until it is made */
    tensor->source.data = data;
    tensor->dtype = dtype;
    search->binding->n_parameters += n;
    search->binding->bytes += dtype_array_bytes(dtype, n);
}

static void set_packed_type(const struct search *search, const uint8_t *data)
{
    const struct quantized_source *source = &search->tensor->source.quantized;
    set_type(search, data,
             source->groups      ? DTYPE_F16
             : source->bits == 4 ? DTYPE_Q4_ZERO
                                 : DTYPE_Q8_FLOAT);
}

/* 8 bits with a zero point have 9: only the middle of the range is taken. */
static enum status check_zeros(const struct search *search, const struct weight_entry *zeros)
{
    const struct quantized_source *source = &search->tensor->source.quantized;
    if (source->bits == 4)
        return STATUS_OK;
    const uint8_t wanted = source->zero_is_less_one ? 127 : 128;
    for (uint64_t i = 0; i < zeros->tensor->bytes; i++)
        if (zeros->tensor->data[i] != wanted)
            return refuse(search, zeros, STATUS_UNSUPPORTED,
                          "has a zero point beside the middle: with 8 bits only symmetric weights "
                          "are supported");
    return STATUS_OK;
}

static enum status bind_words(const struct search *search, const struct weight_entry *words)
{
    const struct quantization *quantization = &search->binding->config->quantization;
    const bool is_awq = quantization->method == QUANTIZATION_AWQ;
    const uint32_t a_word = WORD_BITS / quantization->bits;
    const struct weight_entry *zeros = find(search, ".qzeros"), *scales = find(search, ".scales");
    struct quantized_source *source = &search->tensor->source.quantized;
    source->layout = is_awq ? LAYOUT_AWQ : LAYOUT_GPTQ;
    source->bits = (uint8_t)quantization->bits;
    source->zero_is_less_one = quantization->zero_is_less_one;
    if (!zeros || !scales)
        return say_missing(search, zeros ? ".scales" : ".qzeros");
    if (search->n_out % a_word != 0)
        return refuse(search, words, STATUS_UNSUPPORTED, "has outputs that do not fill words");
    TRY(check_matrix(search, words, SAFETENSORS_I32, is_awq ? search->n_in : search->n_in / a_word,
                     is_awq ? search->n_out / a_word : search->n_out));
    const uint64_t n_groups = scales->tensor->n_dims == 2 ? scales->tensor->shape[0] : 0;
    TRY(set_group(search, scales, n_groups));
    TRY(check_matrix(search, scales, scales->tensor->dtype, n_groups, search->n_out));
    TRY(check_matrix(search, zeros, SAFETENSORS_I32, n_groups, search->n_out / a_word));
    TRY(set_scales(search, scales));
    TRY(check_zeros(search, zeros));
    TRY(set_groups(search, find(search, ".g_idx")));
    source->zeros = zeros->tensor->data;
    use(search, words);
    use(search, zeros);
    set_packed_type(search, words->tensor->data);
    return STATUS_OK;
}

/* weight_shape says again what the matrix has. */
static void use_shape(const struct search *search)
{
    const struct weight_entry *shape = find(search, ".weight_shape");
    if (shape)
        use(search, shape);
}

static enum status bind_packed(const struct search *search, const struct weight_entry *words)
{
    const struct weight_entry *scales = find(search, ".weight_scale"),
                              *zeros = find(search, ".weight_zero_point");
    struct quantized_source *source = &search->tensor->source.quantized;
    const struct safetensor *tensor = words->tensor;
    const uint64_t columns = tensor->n_dims == 2 ? tensor->shape[1] : 0;
    source->layout = LAYOUT_PACKED;
    source->bits = columns * 8 == search->n_in ? 4 : 8;
    const uint32_t a_word = WORD_BITS / source->bits;
    TRY(check_matrix(search, words, SAFETENSORS_I32, search->n_out, search->n_in / a_word));
    if (search->n_in % a_word != 0 || !scales)
        return say_missing(search, ".weight_scale");
    const uint64_t n_groups = scales->tensor->n_dims == 2 ? scales->tensor->shape[1] : 0;
    TRY(set_group(search, scales, n_groups));
    TRY(check_matrix(search, scales, scales->tensor->dtype, search->n_out, n_groups));
    TRY(set_scales(search, scales));
    if (zeros) {
        TRY(check_matrix(search, zeros, SAFETENSORS_I32, (search->n_out + a_word - 1) / a_word,
                         n_groups));
        TRY(check_zeros(search, zeros));
        source->zeros = zeros->tensor->data;
        use(search, zeros);
    }
    TRY(set_groups(search, find(search, ".weight_g_idx")));
    use(search, words);
    use_shape(search);
    set_packed_type(search, tensor->data);
    return STATUS_OK;
}

/* A scale of the matrix, of each row, or of each block. */
static enum status find_scales(const struct search *search, const struct weight_entry *scales)
{
    const struct quantization *quantization = &search->binding->config->quantization;
    const struct safetensor *tensor = scales->tensor;
    const uint64_t rows = tensor->n_dims > 0 ? tensor->shape[0] : 1;
    const uint64_t columns = tensor->n_dims > 1 ? tensor->shape[1] : 1;
    struct tensor *out = search->tensor;
    out->scale_columns = search->n_in;
    if (tensor->n_dims > 2)
        return refuse(search, scales, STATUS_CORRUPT, "has more than two dimensions");
    if (rows == 1 && columns == 1) {
        out->scale_rows = search->n_out;
        return STATUS_OK;
    }
    if (rows == search->n_out && columns == 1) {
        out->scale_rows = 1;
        return STATUS_OK;
    }
    out->scale_rows = quantization->block_rows;
    out->scale_columns = quantization->block_columns;
    if (out->scale_rows > 0 &&
        rows == ((uint64_t)search->n_out + out->scale_rows - 1) / out->scale_rows &&
        columns == ((uint64_t)search->n_in + out->scale_columns - 1) / out->scale_columns)
        return STATUS_OK;
    return refuse(search, scales, STATUS_CORRUPT,
                  "has neither one scale, nor one for each row, nor one for each block of "
                  "weight_block_size");
}

/* Whether each turn of rows has whole blocks of one scale, or all have one. */
static bool has_whole_turns(const struct search *search)
{
    const struct tensor_source *source = &search->tensor->source;
    const uint32_t rows = search->tensor->scale_rows;
    return rows >= search->n_out ||
           (source->first % rows == 0 && source->run % rows == 0 && source->period % rows == 0);
}

/* Its elements stay where they are, unless its rows come by turns. */
static enum status set_e4m3(const struct search *search, const struct weight_entry *weights)
{
    struct tensor *tensor = search->tensor;
    const struct tensor_source *source = &tensor->source;
    if (source->is_widened) {
        set_type(search, weights->tensor->data, DTYPE_F32);
        return STATUS_OK;
    }
    const bool is_by_turns = source->run != source->period;
    const uint32_t in_block = source->first % tensor->scale_rows;
    const size_t first = is_by_turns ? 0 : source->first;
    if (is_by_turns ? !has_whole_turns(search)
                    : in_block > 0 && in_block + tensor->n_out > tensor->scale_rows)
        return refuse(search, weights, STATUS_UNSUPPORTED,
                      "has parts that share a block of one scale: that is not supported");
    set_type(search, weights->tensor->data + first * tensor->n_in, DTYPE_E4M3);
    search->binding->bytes += quantized_source_scales_bytes(tensor);
    return STATUS_OK;
}

/* I8 and F8_E4M3. */
static enum status bind_bytes(const struct search *search, const struct weight_entry *weights)
{
    const bool is_int8 = weights->tensor->dtype == SAFETENSORS_I8;
    const struct weight_entry *scales = find(search, ".weight_scale_inv");
    struct quantized_source *source = &search->tensor->source.quantized;
    if (!scales)
        scales = find(search, ".weight_scale");
    if (!scales)
        return say_missing(search, ".weight_scale");
    TRY(check_matrix(search, weights, weights->tensor->dtype, search->n_out, search->n_in));
    TRY(find_scales(search, scales));
    TRY(set_scales(search, scales));
    use(search, weights);
    source->layout = is_int8 ? LAYOUT_INT8 : LAYOUT_E4M3;
    source->bits = 8;
    source->group = search->n_in;
    if (!is_int8)
        return set_e4m3(search, weights);
    const uint32_t rows = search->tensor->scale_rows;
    if (search->tensor->scale_columns != search->n_in || search->n_in % GROUP_STEP != 0 ||
        (rows != 1 && rows != search->n_out))
        return refuse(
            search, weights, STATUS_UNSUPPORTED,
            "needs one scale, or one for each row, and rows of a multiple of 32 elements");
    set_type(search, weights->tensor->data, DTYPE_Q8_FLOAT);
    return STATUS_OK;
}

enum status quantized_files_bind(struct weight_binding *binding, const char *name,
                                 const struct tensor_source *rows, uint32_t n_out, uint32_t n_in,
                                 struct tensor *tensor, bool *is_found_out, struct error *error)
{
    const enum quantization_method method = binding->config->quantization.method;
    const size_t n = strlen(name), ending = sizeof WEIGHT - 1;
    struct search search = {.binding = binding,
                            .n_out = rows->n_rows,
                            .n_in = rows->turned ? rows->turned : n_in,
                            .tensor = tensor,
                            .error = error};
    *is_found_out = false;
    if (method <= QUANTIZATION_MXFP4 || n <= ending || n >= sizeof search.base ||
        strcmp(name + n - ending, WEIGHT) != 0)
        return STATUS_OK;
    memcpy(search.base, name, n - ending);
    const bool has_words = method == QUANTIZATION_AWQ || method == QUANTIZATION_GPTQ;
    const struct weight_entry *weights = find(&search, WEIGHT);
    const struct weight_entry *words = find(&search, has_words ? ".qweight" : ".weight_packed");
    const bool is_bytes = !has_words && weights &&
                          (weights->tensor->dtype == SAFETENSORS_I8 ||
                           weights->tensor->dtype == SAFETENSORS_F8_E4M3);
    *is_found_out = words || is_bytes;
    if (!*is_found_out)
        return STATUS_OK;
    tensor->n_out = n_out;
    tensor->n_in = n_in;
    tensor->source = *rows;
    if (rows->is_of_heads) {
        if (!is_bytes || weights->tensor->dtype != SAFETENSORS_F8_E4M3)
            return refuse(&search, words ? words : weights, STATUS_UNSUPPORTED,
                          "is quantized: of the quantized forms of this matrix only F8_E4M3 is "
                          "supported");
        tensor->source.is_widened = true;
    }
    if (is_bytes)
        return bind_bytes(&search, weights);
    return has_words ? bind_words(&search, words) : bind_packed(&search, words);
}
