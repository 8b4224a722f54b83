#include "trace/span.h"

#include <assert.h>

void span_init(struct span *span, const char *name, uint64_t start_ns, uint64_t end_ns)
{
    *span = (struct span){
        .name = name,
        .start_ns = start_ns,
        .end_ns = end_ns > start_ns ? end_ns : start_ns,
    };
}

static void add(struct span *span, struct span_attribute attribute)
{
    assert(span->n_attributes < SPAN_ATTRIBUTES_MAX);
    span->attributes[span->n_attributes++] = attribute;
}

void span_add_number(struct span *span, const char *key, uint64_t number)
{
    add(span, (struct span_attribute){.key = key, .number = number});
}

void span_add_text(struct span *span, const char *key, const char *text)
{
    if (text && text[0])
        add(span, (struct span_attribute){.key = key, .text = text});
}
