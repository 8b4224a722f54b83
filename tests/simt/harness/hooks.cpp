/*
 * hooks - what the compiler calls for each access of a unit: -fsanitize=thread, without its runtime.
 */
#include "harness/checks.h"

#include <string.h>

#ifndef SIMT_TSAN
#define SITE __builtin_return_address(0)
#define ACCESS(n, writes, aligned)                                                                 \
    if (!simt::is_plain<n, aligned>(p, writes))                                                    \
    simt::touch(p, n, writes, aligned, SITE)
#define HOOKS(n)                                                                                   \
    void __tsan_read##n(void *p)                                                                   \
    {                                                                                              \
        ACCESS(n, false, true);                                                                    \
    }                                                                                              \
    void __tsan_write##n(void *p)                                                                  \
    {                                                                                              \
        ACCESS(n, true, true);                                                                     \
    }                                                                                              \
    void __tsan_unaligned_read##n(void *p)                                                         \
    {                                                                                              \
        ACCESS(n, false, false);                                                                   \
    }                                                                                              \
    void __tsan_unaligned_write##n(void *p)                                                        \
    {                                                                                              \
        ACCESS(n, true, false);                                                                    \
    }                                                                                              \
    void __tsan_read_write##n(void *p)                                                             \
    {                                                                                              \
        ACCESS(n, true, true);                                                                     \
    }
extern "C" {
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
void __tsan_read_range(void *p, size_t n)
{
    simt::touch(p, n, false, false, SITE);
}
void __tsan_write_range(void *p, size_t n)
{
    simt::touch(p, n, true, false, SITE);
}
void *__tsan_memcpy(void *target, const void *source, size_t n)
{
    if (n) {
        simt::touch(source, n, false, false, SITE);
        simt::touch(target, n, true, false, SITE);
    }
    return memcpy(target, source, n);
}
void *__tsan_memset(void *target, int byte, size_t n)
{
    if (n)
        simt::touch(target, n, true, false, SITE);
    return memset(target, byte, n);
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit()
{
}
void __tsan_init()
{
}
}
#endif
