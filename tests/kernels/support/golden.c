#include "tests/kernels/support/golden.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line of the header: its name, type and number of elements. False at the empty line behind it. */
static bool read_line(FILE *file, struct golden_array *array_out)
{
    char line[GOLDEN_NAME_MAX + 32];
    cr_assert(fgets(line, sizeof line, file), "a golden's header has no end");
    if (line[0] == '\n')
        return false;
    cr_assert_eq(sscanf(line, "%31s %3s %u", array_out->name, array_out->kind, &array_out->n), 3);
    return true;
}

struct golden_file golden_open(const char *name)
{
    struct golden_file golden = {.name = name};
    char path[300];
    snprintf(path, sizeof path, "%s/tests/golden/attention/%s.bin", KVFERRY_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s is missing", path);
    while (read_line(file, &golden.arrays[golden.n_arrays]))
        cr_assert_lt(++golden.n_arrays, GOLDEN_ARRAYS_MAX);
    for (uint32_t i = 0; i < golden.n_arrays; i++) {
        struct golden_array *array = &golden.arrays[i];
        array->data = malloc(array->n * sizeof(uint32_t));
        cr_assert_eq(fread(array->data, sizeof(uint32_t), array->n, file), array->n, "%s, %s", name,
                     array->name);
    }
    cr_assert_eq(fgetc(file), EOF, "%s has more than its header says", name);
    fclose(file);
    return golden;
}

void golden_close(struct golden_file *file)
{
    for (uint32_t i = 0; i < file->n_arrays; i++)
        free(file->arrays[i].data);
}

static const struct golden_array *find(const struct golden_file *file, const char *array)
{
    for (uint32_t i = 0; i < file->n_arrays; i++)
        if (strcmp(file->arrays[i].name, array) == 0)
            return &file->arrays[i];
    return NULL;
}

bool golden_has(const struct golden_file *file, const char *array)
{
    return find(file, array) != NULL;
}

size_t golden_count(const struct golden_file *file, const char *array)
{
    const struct golden_array *found = find(file, array);
    return found ? found->n : 0;
}

static const void *get(const struct golden_file *file, const char *array, const char *kind,
                       size_t n)
{
    const struct golden_array *found = find(file, array);
    cr_assert(found && strcmp(found->kind, kind) == 0 && found->n == n,
              "%s has no %s with %zu of %s", file->name, array, n, kind);
    return found->data;
}

const float *golden_floats(const struct golden_file *file, const char *array, size_t n)
{
    return get(file, array, "f32", n);
}

const uint32_t *golden_numbers(const struct golden_file *file, const char *array, size_t n)
{
    return get(file, array, "u32", n);
}
