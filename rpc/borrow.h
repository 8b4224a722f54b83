/*
 * borrow - lets a message point to const data without a copy.
 *
 * protobuf-c's strings, bytes and arrays have no const, and are only read when a message is packed. The borrowed data
 * must outlive the message.
 *
 * Thread: any.
 */
#pragma once

static inline void *borrow(const void *from)
{
    union {
        const void *in;
        void *out;
    } cast = {.in = from};
    return cast.out;
}
