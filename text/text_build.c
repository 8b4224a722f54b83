#include "text/text_build.h"

bool text_is_built(void)
{
#ifdef KVFERRY_TEXT_RUST
    return true;
#else
    return false;
#endif
}

const char *text_libraries(void)
{
#ifdef KVFERRY_TEXT_RUST
    return KVFERRY_TEXT_RUST;
#else
    return "not part of this build, which lacked rustc 1.87 or later (KVFERRY_TEXT)";
#endif
}
