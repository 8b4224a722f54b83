#include "rpc/relay/relayed_parts.h"

#include <assert.h>
#include <stddef.h>

void relayed_enter_lists(struct relayed_common *common, struct relayed *relayed)
{
    assert(!relayed->next && !relayed->previous && relayed->session.address->n_connections > 0);
    relayed->next = common->first;
    if (relayed->next)
        relayed->next->previous = relayed;
    common->first = relayed;
    common->n++;
    relayed_enter_unproven(common, relayed);
}

void relayed_enter_unproven(struct relayed_common *common, struct relayed *relayed)
{
    if (relayed->is_unproven)
        return;
    assert((common->n_unproven == 0) == !common->oldest_unproven);
    relayed->is_unproven = true;
    relayed->next_unproven = NULL;
    relayed->previous_unproven = common->newest_unproven;
    if (common->newest_unproven)
        common->newest_unproven->next_unproven = relayed;
    else
        common->oldest_unproven = relayed;
    common->newest_unproven = relayed;
    common->n_unproven++;
    relayed->session.address->n_unproven++;
}

void relayed_leave_unproven(struct relayed_common *common, struct relayed *relayed)
{
    if (!relayed->is_unproven)
        return;
    assert(common->n_unproven > 0 && relayed->session.address->n_unproven > 0);
    if (relayed->previous_unproven)
        relayed->previous_unproven->next_unproven = relayed->next_unproven;
    else
        common->oldest_unproven = relayed->next_unproven;
    if (relayed->next_unproven)
        relayed->next_unproven->previous_unproven = relayed->previous_unproven;
    else
        common->newest_unproven = relayed->previous_unproven;
    relayed->is_unproven = false;
    common->n_unproven--;
    relayed->session.address->n_unproven--;
}

void relayed_enter_waiting(struct relayed_common *common, struct relayed *relayed)
{
    assert(!relayed->is_waiting && !common->first_waiting == !common->last_waiting);
    relayed->is_waiting = true;
    relayed->next_waiting = NULL;
    relayed->previous_waiting = common->last_waiting;
    if (common->last_waiting)
        common->last_waiting->next_waiting = relayed;
    else
        common->first_waiting = relayed;
    common->last_waiting = relayed;
}

void relayed_leave_waiting(struct relayed_common *common, struct relayed *relayed)
{
    if (!relayed->is_waiting)
        return;
    assert(common->first_waiting && common->last_waiting);
    if (relayed->previous_waiting)
        relayed->previous_waiting->next_waiting = relayed->next_waiting;
    else
        common->first_waiting = relayed->next_waiting;
    if (relayed->next_waiting)
        relayed->next_waiting->previous_waiting = relayed->previous_waiting;
    else
        common->last_waiting = relayed->previous_waiting;
    relayed->is_waiting = false;
}

void relayed_leave_lists(struct relayed_common *common, struct relayed *relayed)
{
    assert(common->n > 0 && common->n >= common->n_unproven);
    relayed_leave_unproven(common, relayed);
    relayed_leave_waiting(common, relayed);
    if (relayed->previous)
        relayed->previous->next = relayed->next;
    else
        common->first = relayed->next;
    if (relayed->next)
        relayed->next->previous = relayed->previous;
    common->n--;
}
