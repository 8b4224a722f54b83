/*
 * transfer_thread - the one thread that owns a transport and the sender or receiver on it.
 *
 * Runs progress until there is nothing to do, then sleeps in the transport until a message, a
 * command of the engine or a deadline. The transport is opened before the thread starts and closed
 * after it has stopped, on any thread; in between it is this thread's alone.
 *
 * Thread: start and stop from one that is not the transfer thread.
 */
#pragma once

#include "kvtransfer/kv_receiver.h"
#include "kvtransfer/kv_sender.h"

struct transfer_thread;

struct transfer_thread_options {
    const char *name;             /* of the thread, at most 15 bytes; copied */
    struct transport *transport;  /* borrowed, as the others, until stop */
    struct kv_sender *sender;     /* one of the two, */
    struct kv_receiver *receiver; /* or both */
};

MUST_CHECK enum status transfer_thread_start(const struct transfer_thread_options *options,
                                             struct transfer_thread **thread_out);
/* Stops after the round that is running. NULL is fine. */
void transfer_thread_stop(struct transfer_thread *thread);
/* (any) Rounds made so far: a wedged thread's do not move although it was woken. */
uint64_t transfer_thread_rounds(const struct transfer_thread *thread);
