/*
 * build_info - the version of this program, its commit, and the compiler and libraries that built
 * it.
 *
 * Thread: any; the texts are literals.
 */
#pragma once

const char *build_version(void);  /* "0.1.0" */
const char *build_compiler(void); /* "gcc 12.2.0" */
/* "0123456789ab", with "+" when files differed from the commit; "unknown" without git. */
const char *build_commit(void);
const char *build_libraries(void); /* "protobuf-c 1.4.1, ...", as CMake found them */
