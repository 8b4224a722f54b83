# The toolchain of the preset arm64-program: Debian's cross compiler, and the libraries of 64-bit Arm that
# tests/arm64/root.sh unpacks. Programs of the build (protoc, pkg-config) are those of the machine that builds.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER CMAKE_CXX_COMPILER-NOTFOUND) # of tests alone
set(arm64_root ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-root/root)
get_filename_component(arm64_root ${arm64_root} ABSOLUTE)
set(CMAKE_SYSROOT ${arm64_root})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${arm64_root})
set(ENV{PKG_CONFIG_LIBDIR} ${arm64_root}/usr/lib/aarch64-linux-gnu/pkgconfig:${arm64_root}/usr/share/pkgconfig)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-L;${arm64_root})
set(KVFERRY_TEXT_COMPILERS ${arm64_root}/../rust CACHE PATH "")
set(KVFERRY_TEXT_TARGET aarch64-unknown-linux-gnu CACHE STRING "")
