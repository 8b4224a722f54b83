#include "base/build_info.h"
#include "cli/command.h"
#include "kvtransfer/ucx_transport.h"

#include <stdio.h>
#include <stdlib.h>

int version_main(const struct config_input *input)
{
    if (input->argc > 0) {
        fprintf(stderr, "%s: takes no arguments\n", input->command);
        return EXIT_FAILURE;
    }
    printf("kvferry %s, %s, UCX %s\n", build_version(), build_compiler(), ucx_version());
    return EXIT_SUCCESS;
}
