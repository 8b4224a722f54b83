/* Which devices there are: alone in its file, so that a program of tests/e2e has another choice (fault_device_open.c). */
#include "device/host.h"

#include <string.h>

enum status device_open(const char *name, struct device **device_out, struct error *error)
{
    if (strcmp(name, "cpu") != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "there is no device %s, only cpu", name);
    enum status status = host_open(device_out);
    return status == STATUS_OK ? status : error_set(error, status, "no memory for a device");
}
