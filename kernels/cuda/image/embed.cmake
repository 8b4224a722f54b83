# Writes FOLDER/modules.S and FOLDER/modules.c: UNITS' fat binaries, FOLDER/UNIT.fatbin, as the modules of the image.
cmake_minimum_required(VERSION 3.22)
set(assembly "/* The fat binaries of the units. */
#ifdef __CET__
#include <cet.h> /* marks the file: it has no indirect jumps */
#endif
    .section .rodata
")
set(declarations "")
set(rows "")
foreach(unit ${UNITS})
    file(SIZE ${FOLDER}/${unit}.fatbin bytes)
    string(APPEND assembly "    .balign 64
    .hidden cuda_module_${unit}
    .global cuda_module_${unit}
    .type cuda_module_${unit}, %object
cuda_module_${unit}:
    .incbin \"${FOLDER}/${unit}.fatbin\"
    .size cuda_module_${unit}, ${bytes}
")
    string(APPEND declarations "extern const uint8_t cuda_module_${unit}[] __attribute__((visibility(\"hidden\")));\n")
    string(APPEND rows "    [CUDA_UNIT_${unit}] = {\"${unit}\", cuda_module_${unit}, ${bytes}},\n")
endforeach()
string(APPEND assembly "    .section .note.GNU-stack, \"\", %progbits\n")
file(WRITE ${FOLDER}/modules.S "${assembly}")
file(WRITE ${FOLDER}/modules.c "#include \"kernels/cuda/launch.h\"

${declarations}
const struct device_module cuda_modules[CUDA_UNITS] = {
${rows}};
")
