/*
 * banks - counts bank conflicts of shared memory. The lanes of a warp come one by one here, so an access of a warp is what
 * its lanes did at one site, each for the nth time.
 */
#pragma once

#include <stdint.h>

namespace simt
{
/* By the current thread. address: in its CTA's shared memory. */
void banks_access(const void *site, uint32_t address, unsigned bytes);
/* All CTAs of the group have ended: what is incomplete counts, too. */
void banks_end();
} // namespace simt
