#include "kvtier/block_store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

const char *store_fault_name(enum store_fault fault)
{
    static const char *const NAMES[STORE_FAULTS] = {
#define STORE_FAULT_NAME_(name, text) text,
        STORE_FAULT_TABLE(STORE_FAULT_NAME_)
#undef STORE_FAULT_NAME_
    };
    assert((unsigned)fault < STORE_FAULTS);
    return NAMES[fault];
}

const char *block_store_part_text(uint32_t n_sharers, char text_out[PART_TEXT_BYTES])
{
    text_out[0] = '\0';
    if (n_sharers > 1)
        snprintf(text_out, PART_TEXT_BYTES, " for each of %" PRIu32 " workers", n_sharers);
    return text_out;
}
