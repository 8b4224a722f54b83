#include "gen_worker/gen_home.h"

#include <assert.h>

void gen_home_finish_stream(const struct gen_home *home, const struct job *job,
                            const struct gen_finish *finish)
{
    assert((finish->status == STATUS_OK) == (finish->reason != GEN_FINISH_NONE));
    home->stats->requests_finished++;
    if (finish->status == STATUS_OK)
        home->stats->requests_ok++;
    assert(home->stats->requests_ok <= home->stats->requests_finished);
    home->ops->finish(home->ops->arg, job->request.stream, finish);
    engine_inbox_forget_stream(home->inbox);
}

void gen_home_refuse(const struct gen_home *home, struct job *job, enum status status,
                     const char *sentence)
{
    assert(!job->sequence && status != STATUS_OK);
    uint64_t wait_us = (gen_home_now_ns(home) - job->request.arrived_ns) / NS_PER_US;
    gen_home_finish_stream(home, job,
                           &(struct gen_finish){.status = status,
                                                .sentence = sentence,
                                                .prompt_tokens = job->request.n_tokens,
                                                .timing = {.queue_us = wait_us, .wait_us = wait_us},
                                                .marks = {.arrived_ns = job->request.arrived_ns},
                                                .context_worker = ""});
    job_destroy(job);
}
