/*
 * transfer_thread - the one thread that owns a transport and the sender or receiver on it.
 *
 * The thread runs progress until there is nothing to do. Then it sleeps in the transport until a message, a
 * command of the engine or a deadline. Any thread opens the transport before this one starts, and closes it
 * after this one has stopped. In between it belongs to this thread alone.
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
/* (any) Rounds made so far. The number of a stuck thread does not grow after a wake. */
uint64_t transfer_thread_rounds(const struct transfer_thread *thread);
