#include "harness/banks.h"

#include "harness/checks.h"
#include "harness/threads.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace simt
{
enum : unsigned { BANKS = 32, BANK_BYTES = 4 };

struct access {
    uint32_t mask;
    unsigned bytes;
    uint32_t addresses[WARP_LANES];
};

using thread_site = std::tuple<unsigned, unsigned, const void *>;          /* CTA, thread */
using warp_visit = std::tuple<unsigned, unsigned, const void *, unsigned>; /* CTA, warp, nth */

static std::map<thread_site, unsigned> visits;
static std::map<warp_visit, struct access> accesses;

void banks_access(const void *site, uint32_t address, unsigned bytes)
{
    const unsigned cta = current->cta->number;
    const unsigned nth = visits[{cta, current->id, site}]++;
    const warp_visit visit{cta, current->warp, site, nth};
    struct access *access = &accesses[visit];
    access->mask |= 1u << current->lane;
    access->bytes = bytes;
    access->addresses[current->lane] = address;
    if (access->mask == ~0u) {
        count_banks(access->addresses, access->mask, bytes);
        accesses.erase(visit);
    }
}

/* Turns that lanes [first, first + n) take: the most different words that one bank is asked for. */
static unsigned turns(const uint32_t *addresses, uint32_t mask, unsigned first, unsigned n,
                      unsigned bytes)
{
    std::vector<std::set<uint32_t>> words(BANKS);
    for (unsigned lane = first; lane < first + n; lane++)
        for (unsigned b = 0; mask >> lane & 1 && b < std::max(bytes, (unsigned)BANK_BYTES);
             b += BANK_BYTES) {
            const uint32_t word = (addresses[lane] + b) / BANK_BYTES;
            words[word % BANKS].insert(word);
        }
    size_t most = 0;
    for (const std::set<uint32_t> &bank : words)
        most = std::max(most, bank.size());
    return (unsigned)most;
}

/* Accesses of 8 bytes go by half warps, of 16 by quarters. */
void count_banks(const uint32_t *addresses, uint32_t mask, unsigned bytes)
{
    const unsigned lanes = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
    counts.shared_accesses++;
    for (unsigned first = 0; first < WARP_LANES; first += lanes) {
        const unsigned n = turns(addresses, mask, first, lanes, bytes);
        counts.bank_conflicts += n > 1 ? n - 1 : 0;
    }
}

void banks_end()
{
    for (const auto &item : accesses)
        count_banks(item.second.addresses, item.second.mask, item.second.bytes);
    accesses.clear();
    visits.clear();
}
} // namespace simt
