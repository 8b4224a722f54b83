/*
 * text_thread - a thread that tokenizes texts that are too long for the queue thread.
 *
 * It processes texts in the order of arrival, but those of TEXT_LONG_BYTES and more come later: one of them
 * after each TEXT_SHORT_RUN others, or when no other waits. So no short prompt waits for a queue of very long
 * texts, and each of those waits for a bounded number of prompts.
 *
 * Bounds: queue_max jobs wait (text_queue_max), and their texts have bytes_max bytes together (text_queue_bytes_max; one alone may have
 * more); then a push fails, and says which.
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
/* Runs the queued jobs, then ends the thread. No thread may push any more. NULL is fine. */
void text_thread_stop(struct text_thread *thread);
/* job(arg) will run once; bytes is the size of its text. QUEUE_FULL, with a sentence that names the row. */
MUST_CHECK enum status text_thread_push(struct text_thread *thread, text_job job, void *arg,
                                        uint64_t bytes, struct error *error);
