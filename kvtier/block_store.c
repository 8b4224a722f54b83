#include "kvtier/block_store.h"

#include <assert.h>

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
