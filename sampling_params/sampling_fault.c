#include "sampling_params/sampling_fault.h"

#include <inttypes.h>
#include <stdio.h>

bool sampling_fault_set(struct sampling_fault *fault_out, const char *field, const char *value,
                        const char *wanted)
{
    snprintf(fault_out->field, sizeof fault_out->field, "%s", field);
    snprintf(fault_out->value, sizeof fault_out->value, "%s", value);
    snprintf(fault_out->wanted, sizeof fault_out->wanted, "%s", wanted);
    return true;
}

bool sampling_fault_set_count(struct sampling_fault *fault_out, const char *field, uint32_t count,
                              const char *wanted)
{
    char value[32];
    snprintf(value, sizeof value, "%" PRIu32, count);
    return sampling_fault_set(fault_out, field, value, wanted);
}
