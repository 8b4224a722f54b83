#include "harness/switch.h"

#if defined(__x86_64__)
/* The registers that a called function keeps, and the stack pointer. */
__asm__(".text\n.globl simt_switch\n.type simt_switch, @function\nsimt_switch:\n"
        " pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
        " movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
        " popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n"
        ".size simt_switch, . - simt_switch\n");

void *simt_switch_begin(uint8_t *stack, size_t bytes, void (*entry)())
{
    void **top = (void **)(void *)(stack + bytes - 64);
    *--top = nullptr; /* entry returns to nowhere */
    *--top = (void *)entry;
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    return top;
}
#elif defined(__aarch64__)
__asm__(
    ".text\n.globl simt_switch\n.type simt_switch, %function\nsimt_switch:\n"
    " sub sp, sp, #160\n stp x19, x20, [sp]\n stp x21, x22, [sp, #16]\n stp x23, x24, [sp, #32]\n"
    " stp x25, x26, [sp, #48]\n stp x27, x28, [sp, #64]\n stp x29, x30, [sp, #80]\n"
    " stp d8, d9, [sp, #96]\n stp d10, d11, [sp, #112]\n stp d12, d13, [sp, #128]\n"
    " stp d14, d15, [sp, #144]\n mov x9, sp\n str x9, [x0]\n mov sp, x1\n"
    " ldp x19, x20, [sp]\n ldp x21, x22, [sp, #16]\n ldp x23, x24, [sp, #32]\n"
    " ldp x25, x26, [sp, #48]\n ldp x27, x28, [sp, #64]\n ldp x29, x30, [sp, #80]\n"
    " ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n ldp d12, d13, [sp, #128]\n"
    " ldp d14, d15, [sp, #144]\n add sp, sp, #160\n ret\n"
    ".size simt_switch, . - simt_switch\n");

void *simt_switch_begin(uint8_t *stack, size_t bytes, void (*entry)())
{
    uint64_t *top = (uint64_t *)(void *)(stack + bytes - 64 - 160);
    for (int i = 0; i < 20; i++)
        top[i] = 0;
    top[11] = (uint64_t)entry; /* x30 */
    return top;
}
#else
#error "the harness has no switch of stacks for this machine"
#endif
