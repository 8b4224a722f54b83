#include "base/standing.h"

enum status standing_check(const struct standing *standing, struct error *error)
{
    if (standing->weight > STANDING_WEIGHT_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "standing.weight is %u, wanted 0 to %u",
                         standing->weight, STANDING_WEIGHT_MAX);
    if (standing->priority > STANDING_PRIORITY_MAX || standing->priority < -STANDING_PRIORITY_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "standing.priority is %d, wanted %d to %d",
                         standing->priority, -STANDING_PRIORITY_MAX, STANDING_PRIORITY_MAX);
    return STATUS_OK;
}
