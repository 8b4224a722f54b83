/*
 * small_schedule - a schedule whose blocks can be counted by hand, and a caller that does what it says.
 */
#pragma once

#include "schedule/schedule.h"

/* NO_EVICT, 8 blocks of 4 tokens, 4 sequences, 16 tokens a step, 8 of a prompt. */
extern const struct schedule_options SMALL;

struct schedule *new_schedule(const struct schedule_options *options);

/* Of no tenant in particular. */
struct schedule_request request_of(uint32_t prompt_tokens, uint32_t max_new_tokens);
schedule_id add(struct schedule *schedule, const struct schedule_request *request, uint64_t now_ms);
schedule_id add_plain(struct schedule *schedule, uint32_t prompt_tokens, uint32_t max_new_tokens);

struct schedule_changes capacity(struct schedule *schedule, uint32_t n_blocks_available);
/* Does all of the next batch; each one whose last token was computed draws another. */
struct schedule_batch compute(struct schedule *schedule);
