/* drivers - one test for each driver of a list; the body follows the macro, and gets `driver`. */
#pragma once

#include "kvtransfer/driver.h"

#define DRIVER_TEST(suite, name, driver_word, driver_number)                                       \
    Test(suite, name##_##driver_word)                                                              \
    {                                                                                              \
        suite##_##name(driver_number);                                                             \
    }
#define MESSAGE_DRIVERS(suite, name)                                                               \
    static void suite##_##name(enum kv_driver driver);                                             \
    DRIVER_TEST(suite, name, am_tcp, KV_AM_TCP)                                                    \
    DRIVER_TEST(suite, name, unix_socket, KV_UNIX)                                                 \
    DRIVER_TEST(suite, name, tls, KV_TLS)                                                          \
    static void suite##_##name(enum kv_driver driver)
/* A reader hears of its owner's end. */
#define HEARING_DRIVERS(suite, name)                                                               \
    static void suite##_##name(enum kv_driver driver);                                             \
    DRIVER_TEST(suite, name, cuda_ipc, KV_CUDA_IPC)                                                \
    MESSAGE_DRIVERS(suite, name)
#define ALL_DRIVERS(suite, name)                                                                   \
    static void suite##_##name(enum kv_driver driver);                                             \
    DRIVER_TEST(suite, name, shm_read, KV_SHM_READ)                                                \
    HEARING_DRIVERS(suite, name)
