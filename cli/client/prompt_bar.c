#include "cli/client/prompt_bar.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BAR_CELLS  40
#define ERASE_LINE "\r\033[K"

bool prompt_bar_is_possible(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) == 1 && kind && kind[0] && strcmp(kind, "dumb") != 0;
}

void prompt_bar_show(struct prompt_bar *bar, uint32_t done, uint32_t all)
{
    static const char CELLS[] = "########################################";
    static const char GAPS[] = "........................................";
    _Static_assert(sizeof CELLS - 1 == BAR_CELLS && sizeof GAPS == sizeof CELLS, "one a cell");
    if (all == 0)
        return;
    const uint32_t shown = done < all ? done : all;
    const int filled = (int)((uint64_t)shown * BAR_CELLS / all);
    assert(filled >= 0 && filled <= BAR_CELLS);
    bar->is_open = true;
    fprintf(stderr, ERASE_LINE "prefill [%.*s%.*s] %u of %u tokens", filled, CELLS,
            BAR_CELLS - filled, GAPS, shown, all);
    (void)fflush(stderr);
}

void prompt_bar_erase(struct prompt_bar *bar)
{
    if (!bar->is_open)
        return;
    bar->is_open = false;
    fputs(ERASE_LINE, stderr);
    (void)fflush(stderr);
}
