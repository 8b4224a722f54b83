#include "kernels/kernels.h"

#include "kernels/cpu/cpu.h"
#include "kernels/reference/reference.h"

#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* clang 14 does not know the name "f16c". The check of AVX2 covers the operating system's part. */
static bool has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/* Bits of CPUID leaf 7 for which compilers have no common name. */
#define LEAF7_ECX_AVX512_VBMI (1u << 1)
#define LEAF7_ECX_AVX512_VNNI (1u << 11)
#define LEAF7_EDX_AMX         (1u << 22 | 1u << 24 | 1u << 25) /* BF16, tiles, INT8 */
#define LEAF7_EDX_AVX512_FP16 (1u << 23)
#define LEAF7_1_EAX_AVX_VNNI  (1u << 4)
#define LEAF7_1_EAX_BF16      (1u << 5)

struct registers {
    unsigned eax, ebx, ecx, edx;
};

/* Zeros if the processor does not have this leaf. */
static struct registers leaf7(unsigned index)
{
    struct registers r = {0};
    (void)__get_cpuid_count(7, index, &r.eax, &r.ebx, &r.ecx, &r.edx);
    return r;
}

static bool has_avx2_vnni(void)
{
    return has_avx2() && (leaf7(1).eax & LEAF7_1_EAX_AVX_VNNI);
}

static bool has_avx512_vnni(void)
{
    return has_avx512() && (leaf7(0).ecx & LEAF7_ECX_AVX512_VNNI);
}

/* Only Cooper Lake has BF16 without VBMI. */
static bool has_avx512_vbmi(void)
{
    return has_avx512_vnni() && (leaf7(0).ecx & LEAF7_ECX_AVX512_VBMI);
}

static bool has_avx512_bf16(void)
{
    return has_avx512_vbmi() && (leaf7(1).eax & LEAF7_1_EAX_BF16);
}

static bool has_avx512_fp16(void)
{
    return has_avx512_vbmi() && (leaf7(0).edx & LEAF7_EDX_AVX512_FP16);
}

/* Linux lets a process use the tile registers only if it asks for them. */
static bool has_amx(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return has_avx512_bf16() && (leaf7(0).edx & LEAF7_EDX_AMX) == LEAF7_EDX_AMX &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
#elif defined __aarch64__
#include <sys/auxv.h>

static bool has_dot_product(void)
{
    enum { ASIMD_DOT_PRODUCT = 1 << 20 }; /* HWCAP_ASIMDDP */
    return getauxval(AT_HWCAP) & ASIMD_DOT_PRODUCT;
}
#endif

static bool is_always(void)
{
    return true;
}

/* Every implementation, slowest first: amx_bf16 prefills faster than amx, but decodes slower. */
static const struct choice {
    const struct kernels *kernels;
    bool (*is_available)(void);
} choices[] = {
    {&kernels_reference, is_always},
    {&kernels_scalar, is_always},
#ifdef __x86_64__
    {&kernels_sse2, is_always},
    {&kernels_avx2, has_avx2},
    {&kernels_avx2_vnni, has_avx2_vnni},
    {&kernels_avx512, has_avx512},
    {&kernels_avx512_vnni, has_avx512_vnni},
    {&kernels_avx512_bf16, has_avx512_bf16},
    {&kernels_avx512_fp16, has_avx512_fp16},
    {&kernels_amx_bf16, has_amx},
    {&kernels_amx, has_amx},
#elif defined __aarch64__
    {&kernels_neon, is_always},
    {&kernels_neon_dot, has_dot_product},
#endif
};

#define N_CHOICES (sizeof choices / sizeof choices[0])

uint32_t kernels_list(const struct kernels **list_out, uint32_t list_max)
{
    uint32_t n = 0;
    for (size_t i = 0; i < N_CHOICES && n < list_max; i++)
        if (choices[i].is_available())
            list_out[n++] = choices[i].kernels;
    return n;
}

/* The sets of the other kind of processor. */
static const char *const ELSEWHERE[] = {
#if defined __aarch64__
    "sse2",        "avx2",        "avx2_vnni", "avx512",   "avx512_vnni",
    "avx512_bf16", "avx512_fp16", "amx",       "amx_bf16",
#else
    "neon",
    "neon_dot",
#endif
};

static enum status refuse_here(const char *name, struct error *error)
{
    return error_set(error, STATUS_UNSUPPORTED,
                     "this machine cannot run the kernels '%s' (cpu_kernels, KVFERRY_CPU)", name);
}

static enum status select_named(const char *name, const struct kernels **kernels_out,
                                struct error *error)
{
    for (size_t i = 0; i < N_CHOICES; i++) {
        if (strcmp(choices[i].kernels->name, name) != 0)
            continue;
        if (!choices[i].is_available())
            return refuse_here(name, error);
        *kernels_out = choices[i].kernels;
        return STATUS_OK;
    }
    for (size_t i = 0; i < sizeof ELSEWHERE / sizeof *ELSEWHERE; i++)
        if (strcmp(ELSEWHERE[i], name) == 0)
            return refuse_here(name, error);
    return error_set(
        error, STATUS_INVALID_ARGUMENT,
        "no kernels are called '%s' (cpu_kernels, KVFERRY_CPU): reference, scalar, sse2, avx2, "
        "avx2_vnni, avx512, avx512_vnni, "
        "avx512_bf16, avx512_fp16, amx, amx_bf16, neon or neon_dot",
        name);
}

enum status kernels_select(const char *name, const struct kernels **kernels_out,
                           struct error *error)
{
    if (!name || name[0] == '\0')
        name = getenv("KVFERRY_CPU");
    if (name && name[0] != '\0')
        return select_named(name, kernels_out, error);
    for (size_t i = 0; i < N_CHOICES; i++)
        if (choices[i].is_available())
            *kernels_out = choices[i].kernels;
    return STATUS_OK;
}
