#include "worker_common/load_progress.h"

#include "base/clock.h"
#include "base/log/log.h"

#include <stdio.h>
#include <unistd.h>

#define BAR_CELLS 40

void load_progress_init(struct load_progress *progress, struct gauge *ratio, uint64_t now_ns)
{
    *progress = (struct load_progress){
        .ratio = ratio,
        .started_ns = now_ns,
        .is_terminal = isatty(STDERR_FILENO) == 1,
    };
}

static void show_bar(struct load_progress *progress, uint64_t done, uint64_t all)
{
    static const char CELLS[] = "########################################";
    static const char GAPS[] = "........................................";
    _Static_assert(sizeof CELLS - 1 == BAR_CELLS && sizeof GAPS == sizeof CELLS, "one a cell");
    int filled = (int)(done * BAR_CELLS / all);
    fprintf(stderr, "\rloading [%.*s%.*s] %3u %% of %.1f MiB", filled, CELLS, BAR_CELLS - filled,
            GAPS, (unsigned)(done * 100 / all), (double)all / (1 << 20));
    fflush(stderr);
    progress->is_bar_open = true;
}

void load_progress_show(struct load_progress *progress, uint64_t done, uint64_t all,
                        uint64_t now_ns)
{
    if (all == 0)
        return;
    if (progress->ratio)
        gauge_set(progress->ratio, (double)done / (double)all);
    if (now_ns - progress->started_ns < LOAD_PROGRESS_QUIET_MS * NS_PER_MS)
        return;
    uint32_t tenths = (uint32_t)(done * 10 / all);
    if (progress->is_terminal)
        show_bar(progress, done, all);
    else if (tenths > progress->tenths_shown)
        log_info("loading percent %u", tenths * 10);
    progress->tenths_shown = tenths;
}

void load_progress_finish(struct load_progress *progress)
{
    if (progress->is_bar_open)
        fputc('\n', stderr);
    progress->is_bar_open = false;
}
