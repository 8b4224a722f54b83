#include "base/stall.h"

#include <assert.h>

uint64_t stall_look(struct stall *stall, uint64_t mark, uint64_t now_ns)
{
    assert(now_ns >= stall->looked_ns);
    uint64_t gap_ns = now_ns - stall->looked_ns;
    if (mark != stall->mark || stall->looked_ns == 0)
        stall->still_ns = 0;
    else
        stall->still_ns += gap_ns < STALL_GAP_NS ? gap_ns : STALL_GAP_NS;
    stall->mark = mark;
    stall->looked_ns = now_ns;
    return stall->still_ns;
}
