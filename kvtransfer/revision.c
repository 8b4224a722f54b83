#include "kvtransfer/revision.h"

#ifndef KV_REVISION
#define KV_REVISION 2
#endif

uint32_t kv_revision(void)
{
    return KV_REVISION;
}

bool kv_revision_pairs(uint32_t ours, uint32_t theirs)
{
    uint32_t apart = ours > theirs ? ours - theirs : theirs - ours;
    return ours != 0 && theirs != 0 && apart <= 1;
}
