#include "base/build_info.h"
#include "cli/command.h"
#include "device/device.h"
#include "kernels/attention_backends.h"
#include "kernels/cuda/launch.h"
#include "kernels/kernels.h"
#include "kvtransfer/drivers/ucx/ucx_process.h"
#include "model/forward/numerics_id.h"
#include "rpc/runtime/runtime.h"
#include "text/text_build.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETS_MAX 32

static void print_kernels(void)
{
    const struct kernels *sets[SETS_MAX], *chosen;
    struct error error = {0};
    uint32_t n = kernels_list(sets, SETS_MAX);
    assert(n > 0 && n <= SETS_MAX);
    fputs("kernels       ", stdout);
    for (uint32_t i = 0; i < n; i++)
        printf("%s ", sets[i]->name);
    if (kernels_select(NULL, &chosen, &error) == STATUS_OK)
        printf("(chosen: %s)\n", chosen->name);
    else
        printf("(%s)\n", error.text);
}

static void print_attention(void)
{
    const struct kernels *chosen;
    const struct attention_backend *backend, *own;
    const char *name, *own_name = NULL;
    if (kernels_select(NULL, &chosen, NULL) != STATUS_OK)
        return;
    struct error error = {0};
    enum status status = attention_backend_select(NULL, chosen, &own, &error);
    fputs("attention     ", stdout);
    for (uint32_t i = 0; (name = attention_backend_name(i)); i++) {
        if (attention_backend_select(name, chosen, &backend, NULL) != STATUS_OK)
            continue;
        printf("%s ", name);
        if (status == STATUS_OK && backend == own)
            own_name = name;
    }
    printf("(%s%s)\n", own_name ? "chosen: " : "", own_name ? own_name : error.text);
}

/* The defaults of a worker without flags. */
static void print_numerics(void)
{
    const struct kernels *set;
    const struct attention_backend *attention;
    char id[NUMERICS_ID_MAX];
    if (kernels_select(NULL, &set, NULL) != STATUS_OK ||
        attention_backend_select(NULL, set, &attention, NULL) != STATUS_OK)
        return;
    const struct numerics_parts parts = {
        .kernels = set->name,
        .attention = attention_backend_set(attention),
    };
    numerics_id_format(&parts, id);
    printf("numerics      %s\n", id);
}

/* What a worker with --device cuda:0 would find. */
static void print_gpu(void)
{
    struct error error = {""};
    struct device *device;
    bool has_kernels = cuda_image.n_modules > 0;
    for (uint32_t i = 0; i < cuda_image.n_modules; i++)
        has_kernels = has_kernels && cuda_image.modules[i].image;
    printf("GPU kernels   %s\n", has_kernels ? "part of this build" : "not part of this build");
    if (device_open("cuda:0", &device, &error) != STATUS_OK) {
        printf("GPU           none: %s\n", error.text);
        return;
    }
    const struct device_traits traits = device_get_traits(device);
    printf("GPU           cuda:0, architecture %u, %.1f GiB\n", traits.architecture,
           (double)traits.memory_bytes / (1u << 30));
    device_close(device);
}

static void print_version(void)
{
    printf("kvferry %s, commit %s\n", build_version(), build_commit());
    printf("compiler      %s\n", build_compiler());
    printf("libraries     gRPC core %s, UCX %s, %s\n", rpc_library_version(), ucx_version(),
           build_libraries());
    printf("chat          %s\n", text_libraries());
    print_kernels();
    print_attention();
    print_numerics();
    print_gpu();
}

int version_main(const struct config_input *input)
{
    const char *argument = input->argc > 0 ? input->argv[0] : NULL;
    if (argument && (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)) {
        printf("usage: %s\n\n%s\n", input->command, input->help);
        return EXIT_SUCCESS;
    }
    if (argument) {
        fprintf(stderr, "%s: takes no arguments\n", input->command);
        return CONFIG_EXIT_MISUSED;
    }
    print_version();
    return EXIT_SUCCESS;
}
