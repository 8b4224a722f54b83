#include "harness/report.h"

#include <map>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>

namespace simt
{
static void say(const char *sentence)
{
    if (current)
        fprintf(stderr, "simt: CTA %u,%u,%u thread %u (warp %u, lane %u): %s\n", blockIdx.x,
                blockIdx.y, blockIdx.z, current->id, current->warp, current->lane, sentence);
    else
        fprintf(stderr, "simt: %s\n", sentence);
}

void report(const char *format, ...)
{
    char sentence[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    say(sentence);
    abort();
}

/* "lanes 0-3, 8" */
static std::string lanes_text(uint32_t lanes)
{
    std::string text;
    for (unsigned i = 0; i < WARP_LANES; i++) {
        if (!(lanes >> i & 1))
            continue;
        unsigned last = i;
        while (last + 1 < WARP_LANES && lanes >> (last + 1) & 1)
            last++;
        text += (text.empty() ? "" : ", ") + std::to_string(i);
        if (last > i)
            text += "-" + std::to_string(last);
        i = last;
    }
    return (text.find_first_of(",-") == std::string::npos ? "lane " : "lanes ") + text;
}

static std::string where_text(const struct thread *thread)
{
    if (thread->state == DONE)
        return "ended";
    if (!thread->where)
        return "ready";
    char text[120];
    const unsigned id = (unsigned)thread->detail;
    if (thread->state == READY)
        snprintf(text, sizeof text, "spin in %s %u", thread->where, id);
    else if (thread->detail == CLUSTER)
        snprintf(text, sizeof text, "at %s (%u of the cluster have arrived)", thread->where,
                 live_cta(thread->cta->number - thread->cta->rank)->cluster.n_arrived);
    else if (thread->detail >= BARRIER)
        snprintf(text, sizeof text, "at %s (barrier %u: %u have arrived)", thread->where, id,
                 thread->cta->barriers[id].arrived);
    else
        snprintf(text, sizeof text, "at %s of lanes %08x", thread->where, id);
    return text;
}

void report_threads(const struct cta *cta, bool is_deadlock)
{
    fprintf(stderr, "simt: %s in CTA %u,%u,%u\n", is_deadlock ? "deadlock" : "endless spinning",
            cta->index.x, cta->index.y, cta->index.z);
    for (unsigned w = 0; w * WARP_LANES < cta->n_threads; w++) {
        std::map<std::string, uint32_t> places;
        for (unsigned i = w * WARP_LANES; i < cta->n_threads && i < (w + 1) * WARP_LANES; i++)
            places[where_text(&cta->threads[i])] |= 1u << (i % WARP_LANES);
        fprintf(stderr, "simt:   warp %u:", w);
        const char *separator = " ";
        for (const auto &place : places) {
            fprintf(stderr, "%s%s %s", separator, lanes_text(place.second).c_str(),
                    place.first.c_str());
            separator = "; ";
        }
        fprintf(stderr, "\n");
    }
}
} // namespace simt

#ifdef SIMT_TSAN
/* ThreadSanitizer calls it behind each report of its own. */
extern "C" void __tsan_on_report(void *report);
extern "C" void __tsan_on_report(void *)
{
    if (simt::current)
        simt::say("touches what another thread touched; nothing orders the two: see above");
}
#endif
