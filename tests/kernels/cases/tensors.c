#include "tests/kernels/cases/tensors.h"

#include "tests/kernels/support/values.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0xff };

static struct tensor tensor_create(size_t bytes_max)
{
    return (struct tensor){.memory = guarded_create(bytes_max), .bytes_max = bytes_max};
}

static void poison(struct tensor *tensor)
{
    memset(tensor->data, POISON, tensor->bytes);
}

/* n_rows of width elements, the last without a gap behind it. */
/* Elements between rows: without gaps rows lie at multiples of four, for those who read as many at once. */
enum { GAP_MAX = 4 };

static uint32_t gap_of(const struct attention_case *c)
{
    return c->has_gaps ? 3 : GAP_MAX;
}

static void tensor_lay(struct tensor *tensor, uint32_t n_rows, uint32_t width, uint32_t gap,
                       size_t element)
{
    tensor->stride = width + gap;
    tensor->bytes = n_rows == 0 ? 0 : ((n_rows - 1) * tensor->stride + width) * element;
    assert(tensor->bytes <= tensor->bytes_max);
    tensor->data = (char *)tensor->memory.data + tensor->bytes_max - tensor->bytes;
    poison(tensor);
}

void case_tensors_init(const struct case_data *data, struct case_tensors *tensors_out)
{
    const struct attention_case *c = data->test_case;
    uint32_t longest = c->n_draft_max, longest_keys = 1, rows = 0;
    for (uint32_t s = 0; s < c->n_sequences; s++) {
        longest = c->sequences[s].len > longest ? c->sequences[s].len : longest;
        longest_keys = case_keys(c, s) > longest_keys ? case_keys(c, s) : longest_keys;
        longest_keys = c->sequences[s].len > longest_keys ? c->sequences[s].len : longest_keys;
        rows += c->sequences[s].n_beams;
    }
    size_t n_rows = (size_t)rows * (longest + CASE_PAD);
    size_t n_kv_rows = (size_t)rows * (longest_keys + CASE_PAD);
    size_t q_width = data->q_width + 2 * data->kv_width + GAP_MAX;
    size_t kv_bytes = n_kv_rows * (data->kv_width + GAP_MAX) * sizeof(float);
    size_t mask_bytes = c->mask_input == MASK_INPUT_NONE
                            ? 1
                            : n_rows * c->n_sequences * (longest_keys + CASE_PAD) * sizeof(float);
    *tensors_out = (struct case_tensors){
        .q = tensor_create(n_rows * q_width * sizeof(float)),
        .k = tensor_create(c->is_separate ? kv_bytes : 1),
        .v = tensor_create(c->is_separate ? kv_bytes : 1),
        .output = tensor_create(n_rows * (data->q_width + GAP_MAX) * sizeof(float)),
        .lse = tensor_create(n_rows * c->n_heads * sizeof(float)),
        .mask = tensor_create(mask_bytes),
        .q_rows = malloc(n_rows * sizeof(uint32_t)),
        .kv_rows = malloc(n_kv_rows * sizeof(uint32_t)),
    };
    tensors_out->copy = malloc(tensors_out->q.bytes_max + 2 * kv_bytes + mask_bytes);
    assert(tensors_out->copy && tensors_out->q_rows && tensors_out->kv_rows);
}

void case_tensors_finish(struct case_tensors *tensors)
{
    struct tensor *all[] = {&tensors->q,      &tensors->k,   &tensors->v,
                            &tensors->output, &tensors->lse, &tensors->mask};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        guarded_destroy(&all[i]->memory);
    free(tensors->copy);
    free(tensors->q_rows);
    free(tensors->kv_rows);
}

static void place_padding(uint32_t n, uint32_t padded, uint32_t *rows, uint32_t *n_rows)
{
    for (; n < padded; n++)
        rows[(*n_rows)++] = CASE_NO_ROW;
}

/* Sequence after sequence, beam after beam, token after token. */
static void place_rows(const struct case_data *data, const struct case_step *step,
                       struct case_tensors *tensors)
{
    bool is_self = data->test_case->keys == KEYS_SELF;
    tensors->n_q_rows = tensors->n_kv_rows = 0;
    for (uint32_t i = 0; i < step->n_sequences; i++) {
        const struct attention_sequence *sequence = &step->sequences[i];
        uint32_t s = step->owners[i], n_beams = sequence->n_beams > 1 ? sequence->n_beams : 1;
        for (uint32_t beam = 0; beam < n_beams; beam++) {
            for (uint32_t t = 0; t < sequence->query_len; t++)
                tensors->q_rows[tensors->n_q_rows++] = case_data_row(
                    data, s, step->first_tokens[i] + t, beam);
            place_padding(sequence->query_len, step->padded_query_len, tensors->q_rows,
                          &tensors->n_q_rows);
        }
        uint32_t first_new = sequence->key_index + sequence->kv_len - sequence->new_len;
        for (uint32_t t = 0; !is_self && t < sequence->new_len; t++)
            tensors->kv_rows[tensors->n_kv_rows++] = data->first_kv_rows[s] + first_new + t;
        place_padding(sequence->new_len, step->padded_new_len, tensors->kv_rows,
                      &tensors->n_kv_rows);
    }
    if (is_self) {
        tensors->n_kv_rows = tensors->n_q_rows;
        memcpy(tensors->kv_rows, tensors->q_rows, tensors->n_q_rows * sizeof(uint32_t));
    }
}

/* Rows of the data to columns first .. first + width - 1 of a tensor. */
static void copy_rows(const char *rows, const uint32_t *indices, uint32_t n_rows, size_t width,
                      size_t element, uint64_t stride, char *to)
{
    for (uint32_t r = 0; r < n_rows; r++)
        if (indices[r] != CASE_NO_ROW)
            memcpy(to + r * stride * element, rows + indices[r] * width * element, width * element);
}

static void fill_qkv(const struct case_data *data, struct case_tensors *tensors,
                     struct attention_io *io)
{
    const struct attention_case *c = data->test_case;
    size_t element = dtype_bytes(c->compute);
    uint32_t q_width = data->q_width, kv_width = data->kv_width, gap = gap_of(c);
    if (!c->is_separate) {
        tensor_lay(&tensors->q, tensors->n_q_rows, q_width + 2 * kv_width, gap, element);
        tensor_lay(&tensors->k, 0, kv_width, 0, element);
        tensor_lay(&tensors->v, 0, kv_width, 0, element);
        *io = attention_io_fused(&data->configs[0], tensors->q.data, tensors->q.stride, NULL, 0);
    } else {
        tensor_lay(&tensors->q, tensors->n_q_rows, q_width, c->has_gaps ? CASE_PAD : 0, element);
        tensor_lay(&tensors->k, tensors->n_kv_rows, kv_width, c->has_gaps ? 1 : 0, element);
        tensor_lay(&tensors->v, tensors->n_kv_rows, kv_width, gap, element);
        *io = (struct attention_io){.q = tensors->q.data,
                                    .k = tensors->k.data,
                                    .v = tensors->v.data,
                                    .q_stride = tensors->q.stride,
                                    .k_stride = tensors->k.stride,
                                    .v_stride = tensors->v.stride};
    }
    copy_rows(data->q, tensors->q_rows, tensors->n_q_rows, q_width, element, io->q_stride,
              (char *)io->q);
    copy_rows(data->k, tensors->kv_rows, tensors->n_kv_rows, kv_width, element, io->k_stride,
              (char *)io->k);
    copy_rows(data->v, tensors->kv_rows, tensors->n_kv_rows, kv_width, element, io->v_stride,
              (char *)io->v);
}

/* One row of the mask: a quarter of the keys hidden or moved, some rows hidden as a whole. */
static void fill_mask_row(const struct attention_case *c, uint64_t seed, uint32_t n_keys, char *row)
{
    bool is_hidden = values_hash(seed) % 13 == 0;
    for (uint32_t key = 0; key < n_keys; key++) {
        bool is_seen = !is_hidden && values_hash(seed + key) % 4 != 0;
        if (c->mask_input == MASK_INPUT_BOOL)
            row[key] = is_seen ? (char)(1 + key % 3) : 0;
        else
            ((float *)(void *)row)[key] = is_seen ? values_at(seed, 1, key) : -INFINITY;
    }
}

/* What the sequence's own rows say, or those of all sequences, or one row of all queries. */
static uint64_t mask_seed(const struct attention_case *c, const struct case_step *step, uint32_t i,
                          uint32_t row)
{
    uint64_t seed = c->seed;
    if (!c->shares_mask_of_sequences)
        seed += values_hash(step->sequences[i].request_id * 5000 +
                            (c->shares_mask_of_queries ? 0 : step->first_tokens[i]));
    return values_hash(seed + (c->shares_mask_of_queries ? 0 : 1 + row));
}

static void fill_mask(const struct case_data *data, const struct case_step *step,
                      struct case_tensors *tensors, struct attention_io *io)
{
    const struct attention_case *c = data->test_case;
    size_t element = c->mask_input == MASK_INPUT_BOOL ? 1 : sizeof(float);
    uint32_t n_keys = 0, n_rows = 0;
    for (uint32_t i = 0; i < step->n_sequences; i++) {
        const struct attention_sequence *sequence = &step->sequences[i];
        uint32_t rows = sequence->query_len * (sequence->n_beams > 1 ? sequence->n_beams : 1);
        uint32_t keys = sequence->key_index + sequence->kv_len;
        n_rows = rows > n_rows ? rows : n_rows;
        n_keys = keys > n_keys ? keys : n_keys;
    }
    n_rows = c->shares_mask_of_queries ? 1 : n_rows;
    uint32_t n_sequences = c->shares_mask_of_sequences ? 1 : step->n_sequences;
    tensor_lay(&tensors->mask, n_rows * n_sequences, n_keys, c->number % 2, element);
    io->mask = tensors->mask.data;
    io->mask_query_stride = c->shares_mask_of_queries ? 0 : tensors->mask.stride;
    io->mask_sequence_stride = c->shares_mask_of_sequences ? 0 : n_rows * tensors->mask.stride;
    for (uint32_t i = 0; i < n_sequences; i++)
        for (uint32_t r = 0; r < n_rows; r++)
            fill_mask_row(c, mask_seed(c, step, i, r), n_keys,
                          tensors->mask.data + (i * n_rows + r) * tensors->mask.stride * element);
}

static void for_inputs(const struct case_tensors *tensors, const struct tensor *inputs_out[4])
{
    inputs_out[0] = &tensors->q;
    inputs_out[1] = &tensors->k;
    inputs_out[2] = &tensors->v;
    inputs_out[3] = &tensors->mask;
}

void case_tensors_fill(const struct case_data *data, const struct case_step *step,
                       struct case_tensors *tensors, struct attention_io *io_out)
{
    const struct attention_case *c = data->test_case;
    const struct tensor *inputs[4];
    place_rows(data, step, tensors);
    fill_qkv(data, tensors, io_out);
    tensor_lay(&tensors->mask, 0, 0, 0, 1);
    if (c->mask_input != MASK_INPUT_NONE)
        fill_mask(data, step, tensors, io_out);
    tensor_lay(&tensors->output, tensors->n_q_rows, data->q_width, gap_of(c),
               dtype_bytes(c->output_scale != 0 ? DTYPE_E4M3 : c->compute));
    tensor_lay(&tensors->lse, tensors->n_q_rows, c->n_heads, 0, sizeof(float));
    io_out->output = tensors->output.data;
    io_out->output_stride = tensors->output.stride;
    io_out->lse = c->wants_lse ? (float *)(void *)tensors->lse.data : NULL;
    for_inputs(tensors, inputs);
    char *copy = tensors->copy;
    for (uint32_t i = 0; i < 4; i++, copy += inputs[i - 1]->bytes)
        memcpy(copy, inputs[i]->data, inputs[i]->bytes);
}

void case_tensors_poison_outputs(struct case_tensors *tensors)
{
    poison(&tensors->output);
    poison(&tensors->lse);
}

static bool is_poison(const char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((uint8_t)data[i] != POISON)
            return false;
    return true;
}

static void check_inputs(const struct case_tensors *tensors, struct case_result *result)
{
    static const char *const names[] = {"q", "k", "v", "mask"};
    const struct tensor *inputs[4];
    const char *copy = tensors->copy;
    for_inputs(tensors, inputs);
    for (uint32_t i = 0; i < 4; i++, copy += inputs[i - 1]->bytes)
        if (memcmp(copy, inputs[i]->data, inputs[i]->bytes) != 0)
            case_complain(result, "input %s was written", names[i]);
}

/* Rows of padding and the gaps between rows. */
static void check_padding(const struct tensor *tensor, const struct case_tensors *tensors,
                          size_t width, size_t element, struct case_result *result)
{
    for (uint32_t r = 0; r < tensors->n_q_rows; r++) {
        const char *row = tensor->data + r * tensor->stride * element;
        if (tensors->q_rows[r] == CASE_NO_ROW && !is_poison(row, width * element))
            case_complain(result, "row %u is padding and was written", r);
        if (r + 1 < tensors->n_q_rows &&
            !is_poison(row + width * element, (tensor->stride - width) * element))
            case_complain(result, "the gap behind row %u was written", r);
    }
}

void case_tensors_check_untouched(const struct case_tensors *tensors, struct case_result *result)
{
    check_inputs(tensors, result);
    if (!is_poison(tensors->output.data, tensors->output.bytes) ||
        !is_poison(tensors->lse.data, tensors->lse.bytes))
        case_complain(result, "kv_update wrote an output");
}

void case_tensors_collect(const struct case_data *data, uint32_t layer,
                          const struct case_tensors *tensors, struct case_result *result)
{
    const struct attention_case *c = data->test_case;
    enum dtype dtype = c->output_scale != 0 ? DTYPE_E4M3 : c->compute;
    float scale = c->output_scale != 0 ? c->output_scale : 1;
    check_inputs(tensors, result);
    check_padding(&tensors->output, tensors, data->q_width, dtype_bytes(dtype), result);
    check_padding(&tensors->lse, tensors, c->wants_lse ? c->n_heads : 0, sizeof(float), result);
    for (uint32_t r = 0; r < tensors->n_q_rows; r++) {
        if (tensors->q_rows[r] == CASE_NO_ROW)
            continue;
        result->is_computed[tensors->q_rows[r]] = true;
        size_t row = (size_t)layer * data->n_rows + tensors->q_rows[r];
        for (uint32_t i = 0; i < data->q_width; i++)
            result->output[row * data->q_width + i] = dtype_load(dtype, tensors->output.data,
                                                                 r * tensors->output.stride + i) *
                                                      scale;
        if (c->wants_lse)
            memcpy(result->lse + row * c->n_heads,
                   tensors->lse.data + r * c->n_heads * sizeof(float), c->n_heads * sizeof(float));
    }
}
