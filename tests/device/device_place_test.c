/* device_place: a slice is the matrix's rows and columns and nothing else, in place where that is possible; none goes beyond it. */
#include "device/device_place.h"
#include "tests/device/fault_device.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { N_ROWS = 7, N_COLUMNS = 12, SEEDS = 20 };

static struct device *new_device(bool is_host, uint64_t seed)
{
    struct device *device;
    struct error error = {""};
    if (!is_host)
        return fault_device_open(&(struct fault_options){.seed = seed, .steps_max = 2});
    cr_assert_eq(device_open("cpu", &device, &error), STATUS_OK, "%s", error.text);
    return device;
}

/* An odd address: files lie at any. */
static struct device_matrix new_matrix(size_t element_bytes, uint64_t n_rows, uint64_t n_columns)
{
    size_t bytes = n_rows * n_columns * element_bytes;
    uint8_t *data = malloc(bytes + 1);
    cr_assert(data);
    for (size_t i = 0; i <= bytes; i++)
        data[i] = (uint8_t)(i * 131 + (i >> 8) * 7);
    return (struct device_matrix){data + 1, n_rows, n_columns, element_bytes};
}

static void free_matrix(const struct device_matrix *matrix)
{
    free((uint8_t *)(uintptr_t)matrix->data - 1);
}

static const uint8_t *row_of(const struct device_matrix *matrix, const struct device_slice *slice,
                             uint64_t row)
{
    return (const uint8_t *)matrix->data +
           ((slice->first_row + row) * matrix->n_columns + slice->first_column) *
               matrix->element_bytes;
}

static void expect_slice(const struct device_placed *placed, const struct device_matrix *matrix,
                         const struct device_slice *slice)
{
    size_t row_bytes = slice->n_columns * matrix->element_bytes;
    for (uint64_t r = 0; r < slice->n_rows; r++)
        cr_assert_eq(memcmp((const uint8_t *)placed->data + r * row_bytes, row_of(matrix, slice, r),
                            row_bytes),
                     0, "row %lu", (unsigned long)r);
}

/* Placed, and looked at when a ticket behind it is done. */
static struct device_placed place(struct device *device, const struct device_matrix *matrix,
                                  const struct device_slice *slice)
{
    struct device_placed placed;
    struct error error = {""};
    cr_assert_eq(device_place(device, DEVICE_COPY, matrix, slice, &error, &placed), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(device_wait(device, device_record(device, DEVICE_COPY)), STATUS_OK);
    return placed;
}

static const struct device_slice SLICES[] = {
    {0, N_ROWS, 0, N_COLUMNS},         {0, 1, 0, N_COLUMNS}, {2, 3, 0, N_COLUMNS},
    {N_ROWS - 1, 1, 0, N_COLUMNS},     {0, N_ROWS, 0, 1},    {0, N_ROWS, 5, 4},
    {0, N_ROWS, N_COLUMNS - 3, 3},     {3, 2, 4, 8},         {4, 1, 2, 5},
    {N_ROWS - 1, 1, N_COLUMNS - 1, 1},
};
enum { N_SLICES = sizeof SLICES / sizeof *SLICES };

Test(device_place, a_device_with_memory_of_its_own_has_the_slices_bytes)
{
    static const size_t ELEMENT_BYTES[] = {1, 2, 4};
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (size_t i = 0; i < 3 * N_SLICES; i++) {
            struct device *device = new_device(false, seed);
            const struct device_slice *slice = &SLICES[i % N_SLICES];
            struct device_matrix matrix = new_matrix(ELEMENT_BYTES[i / N_SLICES], N_ROWS,
                                                     N_COLUMNS);
            struct device_placed placed = place(device, &matrix, slice);
            expect_slice(&placed, &matrix, slice);
            cr_expect_eq(placed.data, placed.memory.base);
            cr_expect_eq(device_bytes(device, DEVICE_WEIGHTS),
                         slice->n_rows * slice->n_columns * matrix.element_bytes);
            device_free(device, &placed.memory);
            device_close(device);
            free_matrix(&matrix);
        }
}

Test(device_place, the_host_leaves_whole_rows_where_they_are_and_packs_columns)
{
    struct device *device = new_device(true, 0);
    struct device_matrix matrix = new_matrix(2, N_ROWS, N_COLUMNS);
    for (size_t i = 0; i < N_SLICES; i++) {
        const struct device_slice *slice = &SLICES[i];
        struct device_placed placed = place(device, &matrix, slice);
        bool is_one_run = slice->n_columns == N_COLUMNS || slice->n_rows == 1;
        expect_slice(&placed, &matrix, slice);
        cr_expect_eq(!placed.memory.base, is_one_run, "slice %zu", i);
        cr_expect_eq(placed.data == row_of(&matrix, slice, 0), is_one_run);
        cr_expect_eq(device_bytes(device, DEVICE_WEIGHTS),
                     is_one_run ? 0 : slice->n_rows * slice->n_columns * 2);
        device_free(device, &placed.memory);
    }
    free_matrix(&matrix);
    device_close(device);
}

Test(device_place, nothing_is_there_before_the_ticket_behind_it)
{
    struct device *device = fault_device_open(&(struct fault_options){.seed = 1, .steps_max = 1});
    struct device_matrix matrix = new_matrix(2, N_ROWS, N_COLUMNS);
    const struct device_slice all = device_slice_whole(&matrix);
    struct device_placed placed;
    struct error error;
    cr_assert_eq(device_place(device, DEVICE_COPY, &matrix, &all, &error, &placed), STATUS_OK);
    cr_expect_neq(memcmp(placed.data, matrix.data, N_ROWS * N_COLUMNS * 2), 0);
    cr_assert_eq(device_wait(device, device_record(device, DEVICE_COPY)), STATUS_OK);
    expect_slice(&placed, &matrix, &all);
    device_free(device, &placed.memory);
    free_matrix(&matrix);
    device_close(device);
}

/* Pieces that begin and end within rows; each waits for the only view there is. */
Test(device_place, what_is_larger_than_a_piece_goes_in_several)
{
    enum { ROWS = 3, COLUMNS = 1100001 };
    static const struct device_slice CASES[] = {{0, ROWS, 0, COLUMNS}, {0, ROWS, 7, COLUMNS - 9}};
    for (size_t i = 0; i < 2; i++) {
        struct device *device = fault_device_open(
            &(struct fault_options){.seed = i, .steps_max = 2, .views_max = 1});
        struct device_matrix matrix = new_matrix(2, ROWS, COLUMNS);
        struct device_placed placed = place(device, &matrix, &CASES[i]);
        expect_slice(&placed, &matrix, &CASES[i]);
        cr_expect_eq(fault_device_n_views(device), 0);
        device_free(device, &placed.memory);
        free_matrix(&matrix);
        device_close(device);
    }
}

Test(device_place, a_slice_beyond_the_matrix_is_refused_with_a_sentence)
{
    static const struct {
        struct device_slice slice;
        const char *sentence;
    } CASES[] = {
        {{0, 0, 0, 12}, "a slice of 0 rows from 0 on, of a matrix that has 7"},
        {{0, 8, 0, 12}, "a slice of 8 rows from 0 on"},
        {{6, 2, 0, 12}, "a slice of 2 rows from 6 on"},
        {{7, 1, 0, 12}, "a slice of 1 rows from 7 on"},
        {{UINT64_MAX, 2, 0, 12}, "rows from 18446744073709551615 on"},
        {{0, 7, 0, 0}, "a slice of 0 columns"},
        {{0, 7, 11, 2}, "a slice of 2 columns from 11 on, of a matrix that has 12"},
        {{0, 7, 1, UINT64_MAX}, "a slice of 18446744073709551615 columns from 1 on"},
    };
    struct device_matrix matrix = new_matrix(4, N_ROWS, N_COLUMNS);
    for (int is_host = 0; is_host < 2; is_host++) {
        struct device *device = new_device(is_host, 0);
        for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
            struct device_placed placed = {.data = &matrix};
            struct error error = {""};
            cr_expect_eq(
                device_place(device, DEVICE_COPY, &matrix, &CASES[i].slice, &error, &placed),
                STATUS_INVALID_ARGUMENT);
            cr_expect(strstr(error.text, CASES[i].sentence), "%s", error.text);
            cr_expect_eq(placed.data, &matrix, "set only when it is placed");
        }
        device_close(device);
    }
    free_matrix(&matrix);
}

Test(device_place, a_lost_device_keeps_nothing)
{
    struct device_matrix matrix = new_matrix(2, N_ROWS, N_COLUMNS);
    const struct device_slice all = device_slice_whole(&matrix);
    struct device *device = fault_device_open(&(struct fault_options){.steps_max = 1});
    struct device_placed placed;
    struct error error = {""};
    fault_device_fail_at(device, 1);
    cr_expect_eq(device_place(device, DEVICE_COPY, &matrix, &all, &error, &placed),
                 STATUS_DEVICE_LOST);
    cr_expect(strstr(error.text, "168 bytes of weights"), "%s", error.text);
    cr_expect_eq(device_bytes(device, DEVICE_WEIGHTS), 0);
    device_close(device);
    free_matrix(&matrix);
}
