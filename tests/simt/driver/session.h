/*
 * session - the scenarios of the program of that name, one function each, on a device that is open, loaded and bound.
 */
#pragma once

#include "device/device.h"

#define SESSION_SCENARIOS(X)                                                                       \
    X(round_trip)                                                                                  \
    X(order)                                                                                       \
    X(records)                                                                                     \
    X(views)                                                                                       \
    X(graphs)                                                                                      \
    X(stage)                                                                                       \
    X(place)                                                                                       \
    X(digests)                                                                                     \
    X(memory)                                                                                      \
    X(ipc)                                                                                         \
    X(rubbish)                                                                                     \
    X(threads)

#define SCENARIO(name) void session_##name(struct device *device);
SESSION_SCENARIOS(SCENARIO)
#undef SCENARIO

/* Ends the process where it is not so. */
void session_must(bool is_true, const char *what, int line);
/* Ends the process where the device is lost, or anything else is wrong. */
void session_check(enum status status, int line);

#define MUST(condition) session_must(condition, #condition, __LINE__)
#define CHECK(call)     session_check(call, __LINE__)

/* Opened, loaded, bound; else the process ends with 3. */
struct device *session_open(void);
