/*
 * text_thread - one thread for texts that are too long to tokenize where calls arrive.
 *
 * In the order in which they came, but that those of TEXT_LONG_BYTES and more stand back: one of them has its
 * turn after TEXT_SHORT_RUN others, or when no other waits. So nobody's prompt waits for a queue of
 * megabytes, and these wait for a bounded number of prompts each.
 *
 * Bounds: queue_max jobs wait, and their texts have bytes_max bytes together (one alone may have more);
 * then a push fails.
 *
 * Thread: text_thread_push from any.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

#define TEXT_LONG_BYTES (256u << 10)
#define TEXT_SHORT_RUN  8u

struct text_thread;

typedef void (*text_job)(void *arg);

MUST_CHECK enum status text_thread_start(uint32_t queue_max, uint64_t bytes_max,
                                         struct text_thread **thread_out);
/* Runs what is queued, then ends the thread. Nobody may push any more. NULL is fine. */
void text_thread_stop(struct text_thread *thread);
/* job(arg) will be called once; bytes is its text's. QUEUE_FULL. */
MUST_CHECK enum status text_thread_push(struct text_thread *thread, text_job job, void *arg,
                                        uint64_t bytes);
