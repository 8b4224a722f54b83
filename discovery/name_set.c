#include "discovery/name_set.h"

#include <assert.h>

static bool take_nothing(struct name_set *name, uint64_t now_ns)
{
    if (!name->has_nothing_since)
        name->nothing_since_ns = now_ns;
    name->has_nothing_since = true;
    if (name->set.n == 0 || now_ns - name->nothing_since_ns < name->empty_after_ns)
        return false;
    address_set_clear(&name->set);
    return true;
}

bool name_set_take(struct name_set *name, enum name_answer answer, const struct address_set *found,
                   uint64_t now_ns)
{
    if (answer == NAME_FAILED)
        return false;
    if (answer == NAME_NOTHING)
        return take_nothing(name, now_ns);
    assert(found->n > 0);
    name->has_nothing_since = false;
    if (address_set_equals(&name->set, found))
        return false;
    name->set = *found;
    return true;
}
