#include "schedule/shares.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status shares_init(struct shares *shares, uint32_t shares_max)
{
    memset(shares, 0, sizeof *shares);
    shares->shares_max = shares_max;
    shares->all = calloc(shares_max, sizeof *shares->all);
    return shares->all ? STATUS_OK : STATUS_NO_MEMORY;
}

void shares_finish(struct shares *shares)
{
    free(shares->all);
    memset(shares, 0, sizeof *shares);
}

static uint32_t find(const struct shares *shares, uint64_t id)
{
    uint32_t i = 0;
    while (i < shares->n && (shares->all[i].n_items == 0 || shares->all[i].id != id))
        i++;
    return i;
}

const struct share *shares_find(const struct shares *shares, uint64_t id)
{
    uint32_t index = find(shares, id);
    return index < shares->n ? &shares->all[index] : NULL;
}

uint32_t shares_join(struct shares *shares, uint64_t id)
{
    uint32_t index = find(shares, id);
    if (index == shares->n) {
        for (index = 0; index < shares->n && shares->all[index].n_items > 0;)
            index++;
        assert(index < shares->shares_max && "there are no more with items than items");
        shares->n += index == shares->n;
        shares->all[index] = (struct share){.id = id};
    }
    shares->all[index].n_items++;
    return index;
}

void shares_leave(struct shares *shares, uint32_t index)
{
    struct share *share = &shares->all[index];
    assert(index < shares->n && share->n_items > 0);
    share->n_items--;
    assert(share->n_items > 0 || (share->n_waiting == 0 && share->n_sequences == 0));
}
