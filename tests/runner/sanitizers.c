/* Compiled into every test program: options of the sanitizers, and what they are to overlook, which is nothing of ours. */

const char *__ubsan_default_options(void);
const char *__tsan_default_options(void);
const char *__tsan_default_suppressions(void);

const char *__ubsan_default_options(void)
{
    return "print_stacktrace=1";
}

/* A process sleeps before it ends, so that races of threads that still run are seen: by default a second, and each test is one. */
const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=100";
}

/* Libraries of the distribution that are not instrumented: their locks and queues are invisible. */
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libgrpc.so\n"
           "called_from_lib:libgpr.so\n"
           "called_from_lib:libucp.so\n"
           "called_from_lib:libuct.so\n"
           "called_from_lib:libucs.so\n"
           "called_from_lib:libevent_core\n"
           "called_from_lib:libcrypto.so\n" /* of gRPC's channels, whose locks nobody sees */
           "called_from_lib:libssl.so\n"
           "race:libgrpc.so\n"
           "race:libgpr.so\n"
           "race:libabsl\n"
           "race:libupb\n"
           "race:libcares\n"
           "race:libstdc++.so\n" /* under gRPC only */
           "race:libucp.so\n"
           "race:libuct.so\n"
           "race:libucs.so\n"
           "race:libevent_core\n"
           "thread:libgpr.so\n" /* gRPC joins its threads when it likes, at the end of a process or not */
           /* libucs unlocks at exit what it has locked unseen; the frame is ld.so's. */
           "mutex:_dl_call_fini\n";
}
