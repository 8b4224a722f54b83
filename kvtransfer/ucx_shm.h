/*
 * ucx_shm - driver shm-read: copies out of the owner's pool through shared memory.
 *
 * UCX does such a read inside the call, so that gets wait here and are done in progress, at most
 * about a megabyte a round, before commands and messages have their turn again.
 */
#pragma once

#include "kvtransfer/ucx_state.h"

/* The gets are taken. */
void ucx_shm_get(struct ucx_transport *transport, struct ucx_get *const *gets, uint32_t n);
/* Returns the number of reads made. */
unsigned ucx_shm_read(struct ucx_transport *transport);
