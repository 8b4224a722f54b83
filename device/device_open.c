/* Opens a device by name. This is in its own file so that a program of tests/e2e can replace it (fault_device_open.c). */
#include "base/log/log.h"
#include "device/cuda.h"
#include "device/host.h"

#include <stdlib.h>
#include <string.h>

static enum status open_cpu(struct device **device_out, struct error *error)
{
    enum status status = host_open(device_out);
    return status == STATUS_OK ? status : error_set(error, status, "no memory for a device");
}

/* No driver, no GPU, or too old for the kernels: then the host computes. */
static enum status open_auto(struct device **device_out, struct error *error)
{
    struct error why = {""};
    enum status status = cuda_open(0, device_out, &why);
    if (status == STATUS_OK) {
        log_event(LOG_INFO, NULL, "device chosen", LOG_TEXT("device", device_name(*device_out)),
                  LOG_TEXT("why", "there is a GPU"));
        return STATUS_OK;
    }
    if (status != STATUS_NOT_FOUND && status != STATUS_UNSUPPORTED)
        return error_set(error, status, "%s", why.text);
    log_event(LOG_INFO, NULL, "device chosen", LOG_TEXT("device", "cpu"),
              LOG_TEXT("why", why.text));
    return open_cpu(device_out, error);
}

/* "cuda:N", N of one to four digits. */
static bool parse_cuda(const char *name, uint32_t *number_out)
{
    static const char PREFIX[] = "cuda:";
    if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0)
        return false;
    const char *digits = name + sizeof PREFIX - 1;
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > 4 || digits[n] != '\0')
        return false;
    *number_out = (uint32_t)strtoul(digits, NULL, 10);
    return true;
}

enum status device_open(const char *name, struct device **device_out, struct error *error)
{
    uint32_t number;
    if (strcmp(name, "cpu") == 0)
        return open_cpu(device_out, error);
    if (strcmp(name, "auto") == 0)
        return open_auto(device_out, error);
    if (parse_cuda(name, &number))
        return cuda_open(number, device_out, error);
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "there is no device %s: there are cpu, cuda:N (a GPU by its number) and auto",
                     name);
}
