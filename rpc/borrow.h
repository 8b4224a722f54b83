/*
 * borrow - what a message points to, without a copy.
 *
 * protobuf-c's strings, bytes and arrays have no const, and are only read when a message is packed. The message lives
 * no longer than what it borrows.
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
