#include "model/weights/quantized_source.h"

#include "kernels/blocks.h"

#include <assert.h>
#include <string.h>

enum { BLOCK = 32, WORD_BITS = 32 };

/* A block of columns of a strip of rows. */
struct part {
    uint32_t first, n_rows;         /* rows */
    uint32_t k;                     /* column */
    uint32_t in_file[SOURCE_STRIP]; /* the number of each row there */
    uint8_t numbers[SOURCE_STRIP][BLOCK];
};

static uint32_t word_at(const void *words, size_t i)
{
    uint32_t word;
    memcpy(&word, (const uint8_t *)words + i * sizeof word, sizeof word);
    return word;
}

/* Where AWQ keeps column o % 8 of a word. */
static uint32_t awq_place(uint32_t o)
{
    static const uint8_t PLACES[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return PLACES[o % 8];
}

static uint32_t element_of(uint32_t word, uint32_t place, uint32_t bits)
{
    return word >> place * bits & ((1u << bits) - 1);
}

/* Here and below, row is that of the matrix in the files. */
static uint32_t number_at(const struct tensor *tensor, uint32_t row, uint32_t k)
{
    const struct quantized_source *source = &tensor->source.quantized;
    const void *words = tensor->source.data;
    const uint32_t a_word = WORD_BITS / source->bits;
    switch (source->layout) {
    case LAYOUT_AWQ:
        return element_of(
            word_at(words, (size_t)k * (tensor->source.n_rows / a_word) + row / a_word),
            awq_place(row), source->bits);
    case LAYOUT_GPTQ:
        return element_of(word_at(words, (size_t)(k / a_word) * tensor->source.n_rows + row),
                          k % a_word, source->bits);
    case LAYOUT_PACKED:
        return element_of(word_at(words, (size_t)row * (tensor->n_in / a_word) + k / a_word),
                          k % a_word, source->bits);
    case LAYOUT_INT8: /* from two's complement to 128 more */
        return ((const uint8_t *)words)[(size_t)row * tensor->n_in + k] ^ 0x80u;
    case LAYOUT_MXFP4:
        return element_of(((const uint8_t *)words)[((size_t)row * tensor->n_in + k) / 2], k % 2, 4);
    case LAYOUT_ELEMENTS:
    case LAYOUT_E4M3:
        break;
    }
    assert(false && "has no whole numbers");
    return 0;
}

/* Columns outside, so that a line of words is read once for all rows; packed rows are read along them. */
static void take_numbers(const struct tensor *tensor, struct part *part)
{
    const enum source_layout layout = tensor->source.quantized.layout;
    if (layout == LAYOUT_AWQ || layout == LAYOUT_GPTQ) {
        for (uint32_t i = 0; i < BLOCK; i++)
            for (uint32_t r = 0; r < part->n_rows; r++)
                part->numbers[r][i] = (uint8_t)number_at(tensor, part->in_file[r], part->k + i);
        return;
    }
    for (uint32_t r = 0; r < part->n_rows; r++)
        for (uint32_t i = 0; i < BLOCK; i++)
            part->numbers[r][i] = (uint8_t)number_at(tensor, part->in_file[r], part->k + i);
}

static float scale_at(const struct tensor *tensor, uint32_t row, uint32_t group)
{
    const struct quantized_source *source = &tensor->source.quantized;
    const size_t n_groups = tensor->n_in / source->group;
    const bool is_by_group = source->layout == LAYOUT_AWQ || source->layout == LAYOUT_GPTQ;
    if (source->layout == LAYOUT_INT8) /* one, or one for each row */
        return dtype_load(source->scale_dtype, source->scales, tensor->scale_rows == 1 ? row : 0);
    return dtype_load(source->scale_dtype, source->scales,
                      is_by_group ? (size_t)group * tensor->source.n_rows + row
                                  : row * n_groups + group);
}

static uint32_t zero_at(const struct tensor *tensor, uint32_t row, uint32_t group)
{
    const struct quantized_source *source = &tensor->source.quantized;
    const uint32_t a_word = WORD_BITS / source->bits;
    const size_t n_groups = tensor->n_in / source->group;
    if (!source->zeros)
        return 1u << (source->bits - 1);
    if (source->layout == LAYOUT_PACKED)
        return element_of(word_at(source->zeros, row / a_word * n_groups + group), row % a_word,
                          source->bits);
    const uint32_t word = word_at(source->zeros,
                                  (size_t)group * (tensor->source.n_rows / a_word) + row / a_word);
    if (source->layout == LAYOUT_AWQ)
        return element_of(word, awq_place(row), source->bits);
    return element_of(word, row % a_word, source->bits) + source->zero_is_less_one;
}

static uint32_t group_at(const struct tensor *tensor, uint32_t k)
{
    const struct quantized_source *source = &tensor->source.quantized;
    return source->groups ? word_at(source->groups, k) : k / source->group;
}

static void put_q4(const uint8_t *numbers, float scale, uint32_t zero, uint8_t *block)
{
    memcpy(block, &scale, sizeof scale);
    block[4] = (uint8_t)zero;
    for (uint32_t i = 0; i < BLOCK / 2; i++)
        block[5 + i] = (uint8_t)(numbers[i] | numbers[BLOCK / 2 + i] << 4);
}

static void put_q8(const uint8_t *numbers, float scale, uint8_t *block)
{
    memcpy(block, &scale, sizeof scale);
    for (uint32_t i = 0; i < BLOCK; i++)
        block[4 + i] = numbers[i] ^ 0x80u;
}

static void put_mxfp4(const uint8_t *numbers, uint8_t scale, uint8_t *block)
{
    block[0] = scale;
    for (uint32_t i = 0; i < BLOCK / 2; i++)
        block[1 + i] = (uint8_t)(numbers[i] | numbers[BLOCK / 2 + i] << 4);
}

/* Columns of many groups: each element has the scale of its own. */
static void put_f16(const struct tensor *tensor, const uint8_t *numbers, uint32_t row, uint32_t k,
                    uint8_t *halves)
{
    for (uint32_t i = 0; i < BLOCK; i++) {
        const uint32_t group = group_at(tensor, k + i);
        const int32_t number = (int32_t)numbers[i] - (int32_t)zero_at(tensor, row, group);
        const uint16_t half = f16_from_f32((float)number * scale_at(tensor, row, group));
        memcpy(halves + i * sizeof half, &half, sizeof half);
    }
}

static void put_part(const struct tensor *tensor, const struct part *part, uint8_t *made)
{
    const size_t row_bytes = dtype_array_bytes(tensor->dtype, tensor->n_in);
    const size_t at = dtype_array_bytes(tensor->dtype, part->k);
    const uint32_t group = part->k / tensor->source.quantized.group;
    for (uint32_t r = 0; r < part->n_rows; r++) {
        const uint32_t row = part->in_file[r];
        uint8_t *to = made + (part->first + r) * row_bytes + at;
        if (tensor->dtype == DTYPE_MXFP4)
            put_mxfp4(part->numbers[r],
                      ((const uint8_t *)tensor->source.quantized
                           .scales)[row * (size_t)(tensor->n_in / BLOCK) + group],
                      to);
        else if (tensor->dtype == DTYPE_F16)
            put_f16(tensor, part->numbers[r], row, part->k, to);
        else if (tensor->dtype == DTYPE_Q4_ZERO)
            put_q4(part->numbers[r], scale_at(tensor, row, group), zero_at(tensor, row, group), to);
        else
            put_q8(part->numbers[r], scale_at(tensor, row, group), to);
    }
}

void quantized_source_make(const struct tensor *tensor, uint32_t strip, uint8_t *made)
{
    struct part part = {.first = strip * SOURCE_STRIP};
    part.n_rows = tensor->n_out - part.first < SOURCE_STRIP ? tensor->n_out - part.first
                                                            : SOURCE_STRIP;
    for (uint32_t r = 0; r < part.n_rows; r++)
        part.in_file[r] = tensor_row_in_file(&tensor->source, part.first + r);
    for (; part.k < tensor->n_in; part.k += BLOCK) {
        take_numbers(tensor, &part);
        put_part(tensor, &part, made);
    }
}

static size_t scale_columns(const struct tensor *tensor)
{
    return (tensor->n_in + (size_t)tensor->scale_columns - 1) / tensor->scale_columns;
}

static size_t n_scales(const struct tensor *tensor)
{
    const size_t rows = (tensor->n_out + (size_t)tensor->scale_rows - 1) / tensor->scale_rows;
    return rows * scale_columns(tensor);
}

size_t quantized_source_scales_bytes(const struct tensor *tensor)
{
    return n_scales(tensor) * sizeof(float);
}

static size_t element_bytes(const struct tensor *tensor)
{
    return dtype_array_bytes(tensor->dtype, (size_t)tensor->n_out * tensor->n_in);
}

size_t quantized_source_bytes(const struct tensor *tensor)
{
    const bool is_in_place = tensor->source.run == tensor->source.period;
    if (tensor->source.quantized.layout != LAYOUT_E4M3)
        return element_bytes(tensor);
    return quantized_source_scales_bytes(tensor) + (is_in_place ? 0 : element_bytes(tensor));
}

void quantized_source_scales(const struct tensor *tensor, float *scales_out)
{
    const struct quantized_source *source = &tensor->source.quantized;
    const size_t columns = scale_columns(tensor), n_rows = n_scales(tensor) / columns;
    for (size_t r = 0; r < n_rows; r++) {
        const uint32_t row = tensor_row_in_file(&tensor->source, (uint32_t)r * tensor->scale_rows);
        const size_t first = row / tensor->scale_rows * columns;
        for (size_t c = 0; c < columns; c++)
            scales_out[r * columns + c] = dtype_load(source->scale_dtype, source->scales,
                                                     first + c);
    }
}
