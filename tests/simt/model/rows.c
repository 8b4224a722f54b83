#include "tests/simt/model/rows.h"

#include <math.h>

uint32_t rows_best(const float *logits, uint32_t n)
{
    uint32_t id = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[id])
            id = i;
    return id;
}

double rows_margin(const float *logits, uint32_t n)
{
    uint32_t first = rows_best(logits, n);
    double second = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        if (i != first && (double)logits[i] > second)
            second = (double)logits[i];
    return (double)logits[first] - second;
}

double rows_largest(const float *logits, uint32_t n)
{
    double largest = 0;
    for (uint32_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)logits[i]));
    return largest;
}
