#include "base/build_info.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const char *build_version(void)
{
    return KVFERRY_VERSION;
}

const char *build_libraries(void)
{
    return KVFERRY_LIBRARIES;
}

const char *build_compiler(void)
{
#if defined __clang__
    return "clang " TEXT(__clang_major__) "." TEXT(__clang_minor__) "." TEXT(__clang_patchlevel__);
#else
    return "gcc " TEXT(__GNUC__) "." TEXT(__GNUC_MINOR__) "." TEXT(__GNUC_PATCHLEVEL__);
#endif
}
