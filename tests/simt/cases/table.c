#include "tests/simt/cases/table.h"

#include "device/device_ops.h"
#include "kernels/cuda/launch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAILURES_SHOWN = 10 };

/* Memory of the device that nobody wrote is NaN. */
static enum status (*real_allocate)(struct device *, size_t, uint8_t **);

static enum status poisoned(struct device *device, size_t bytes, uint8_t **base_out)
{
    enum status status = real_allocate(device, bytes, base_out);
    if (status == STATUS_OK)
        memset(*base_out, 0xff, bytes);
    return status;
}

struct launched launched;
uint32_t table_architecture;
static enum status (*real_launch)(struct device *, uint32_t, const struct device_shape *,
                                  const void *, size_t);

static enum status counted(struct device *device, uint32_t kernel, const struct device_shape *shape,
                           const void *parameters, size_t bytes)
{
    launched.n_flash += kernel >= CUDA_attention_flash_bf16_64 &&
                        kernel <= CUDA_attention_flash_sm90_bf16_128;
    launched.n_flash_sm90 += kernel == CUDA_attention_flash_sm90_bf16_128;
    launched.n_quads += kernel == CUDA_attention_update_quads;
    launched.n_grouped += kernel >= CUDA_attention_grouped_bf16_16_64 &&
                          kernel <= CUDA_attention_grouped_f16_8_128;
    launched.n_short += kernel == CUDA_attention_whole_short;
    launched.n_unfused += kernel == CUDA_attention_whole_unfused;
    if (kernel == CUDA_attention_whole_unfused) {
        const struct attention_parameters *p = parameters;
        launched.n_walking += shape->grid[0] < 4 * p->n_context_tiles * p->n_parts * p->n_kv_heads;
    }
    return real_launch(device, kernel, shape, parameters, bytes);
}

/* KVFERRY_SIMT_ALL: everything that the table has, and all that there is to look at. */
bool table_has_all(void)
{
    return getenv("KVFERRY_SIMT_ALL") || getenv("KVFERRY_CASE");
}

/* Mixed, so that a sample of the cases has all parts. */
bool table_is_part(uint32_t number, enum part part)
{
    const uint32_t turn = number / SCHEDULES;
    return table_has_all() ||
           (turn + turn / PARTS + turn / PARTS / PARTS) % PARTS == (uint32_t)part;
}

struct device *table_device(uint32_t schedule, uint32_t number)
{
    static struct device_ops ops;
    struct device *device = simt_device_open(
        &(struct simt_options){.architecture = table_architecture,
                               .copies_late = schedule % 2 == 1,
                               .seed = schedule < 2 ? 0 : 77 + schedule,
                               .only_bounds = !table_is_part(number, IS_SHARING)});
    struct error error = {""};
    real_allocate = device->ops->allocate;
    ops = *device->ops;
    ops.allocate = poisoned;
    real_launch = device->ops->launch;
    ops.launch = counted;
    launched = (struct launched){0};
    device->ops = &ops;
    cr_assert_eq(device_load(device, &cuda_image, &error), STATUS_OK, "%s", error.text);
    return device;
}

struct case_result table_run(const struct case_data *data, const struct case_options *options,
                             uint32_t schedule)
{
    struct case_options on_device = *options;
    struct case_result result;
    on_device.device = table_device(schedule, data->test_case->number);
    on_device.adopt = simt_device_adopt;
    device_bind(on_device.device);
    case_run(data, &on_device, &result);
    device_bind(NULL);
    device_close(on_device.device);
    return result;
}

bool table_launched_as_named(const struct attention_case *c)
{
    bool has_contexts = false;
    for (uint32_t s = 0; s < c->n_sequences; s++)
        has_contexts = has_contexts || c->sequences[s].prompt_len > c->sequences[s].prefix_len;
    return (launched.n_short != 0) == (has_contexts && c->path == PATH_SHORT) &&
           (launched.n_unfused != 0) == (has_contexts && c->path == PATH_UNFUSED);
}

void table_fail(struct table *table, const struct attention_case *c, const char *what,
                const char *why)
{
    table->n_failed++;
    if (table->n_failed > FAILURES_SHOWN)
        return;
    case_print(c);
    fprintf(stderr, "%s, schedule %u, case %u: %s %s\n", table->name, table->schedule, c->number,
            what, why);
}

static double over(double error, double bound)
{
    return error == 0 ? 0 : error / bound;
}

void table_compare(struct table *table, const struct case_data *data, const struct case_result *got,
                   const struct case_result *expected)
{
    const struct case_error bound = case_bound(data, expected, false);
    const struct case_error error = case_error(data, got, expected);
    double worst = over(error.output, bound.output);
    worst = over(error.rms, bound.rms) > worst ? over(error.rms, bound.rms) : worst;
    worst = over(error.lse, bound.lse) > worst ? over(error.lse, bound.lse) : worst;
    if (worst > table->worst_of_bound) {
        table->worst_of_bound = worst;
        table->worst_case = data->test_case->number;
    }
    char text[160];
    snprintf(text, sizeof text, "output %.2e of %.2e, rms %.2e of %.2e, lse %.2e of %.2e",
             error.output, bound.output, error.rms, bound.rms, error.lse, bound.lse);
    if (!(worst <= 1))
        table_fail(table, data->test_case, "too far from the reference:", text);
}
