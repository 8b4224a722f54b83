#include "rpc/relay/relayed_parts.h"

#include <stddef.h>

void relayed_enter_lists(struct relayed_common *common, struct relayed *relayed)
{
    relayed->next = common->first;
    if (relayed->next)
        relayed->next->previous = relayed;
    common->first = relayed;
    common->n++;

    relayed->is_unproven = true;
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

void relayed_leave_lists(struct relayed_common *common, struct relayed *relayed)
{
    relayed_leave_unproven(common, relayed);
    if (relayed->previous)
        relayed->previous->next = relayed->next;
    else
        common->first = relayed->next;
    if (relayed->next)
        relayed->next->previous = relayed->previous;
    common->n--;
}
