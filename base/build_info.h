/*
 * build_info - what was built: the version of CMakeLists.txt, and the compiler.
 *
 * Thread: any; the texts are literals.
 */
#pragma once

const char *build_version(void);  /* "0.1.0" */
const char *build_compiler(void); /* "gcc 12.2.0" */
