/*
 * relay_bed - one relay with clients that are sockets; the test is the core.
 *
 * Asserts (Criterion) on anything unexpected, silence of RELAY_BED_WAIT_MS included.
 */
#pragma once

#include "rpc/relay/frame.h"
#include "rpc/relay/relay.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define RELAY_BED_WAIT_MS   20000 /* reached only by a failure */
#define RELAY_BED_CORES_MAX 1024

/* What a client says first: the preface and empty SETTINGS. */
#define RELAY_BED_HELLO       FRAME_PREFACE "\0\0\0\x04\0\0\0\0\0"
#define RELAY_BED_HELLO_BYTES (sizeof RELAY_BED_HELLO - 1)

struct relay_bed {
    struct relay_options options;
    struct metrics *metrics;
    struct relay_metrics relay_metrics;
    struct relay *relay;
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    int cores[RELAY_BED_CORES_MAX]; /* the ends handed over, the caller's */
    uint32_t n_cores;
};
extern struct relay_bed relay_bed;

/* Default options for that address, to be changed before the start. */
void relay_bed_prepare(const char *address);
void relay_bed_start(void);
void relay_bed_stop(void);

/* The index-th end that was handed over; waits for it. */
int relay_bed_core_at(uint32_t index);
uint32_t relay_bed_n_cores(void);
uint64_t relay_bed_n_struck(enum relay_limit limit);
void relay_bed_wait_struck(enum relay_limit limit, uint64_t n);

int relay_bed_connect(uint8_t last); /* from 127.0.0.last */
/* A client that the core knows. */
int relay_bed_greet(uint8_t last, int *core_out);
void relay_bed_say(int fd, const void *bytes, size_t n);
/* At least one byte; 0: the end, or a reset. */
size_t relay_bed_hear(int fd, void *bytes, size_t n_max);
void relay_bed_hear_all(int fd, void *bytes, size_t n);
void relay_bed_hear_end(int fd);

/* With a payload that depends on its length. Returns the bytes put. */
size_t relay_bed_put_frame(uint8_t *out, uint32_t length, enum frame_type type, uint8_t flags,
                           uint32_t stream);
/* HEADERS that open the stream, and wait for their DATA. */
void relay_bed_open_stream(int fd, int core, uint32_t stream);
