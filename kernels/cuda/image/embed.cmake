# Writes FOLDER/ARRAY.S and FOLDER/ARRAY.c: UNITS' fat binaries, FOLDER/UNIT.fatbin, as the array of modules that HEADER declares,
# a unit at INDEXunit.
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
    string(APPEND rows "    [${INDEX}${unit}] = {\"${unit}\", cuda_module_${unit}, ${bytes}},\n")
endforeach()
string(APPEND assembly "    .section .note.GNU-stack, \"\", %progbits\n")
file(WRITE ${FOLDER}/${ARRAY}.S "${assembly}")
file(WRITE ${FOLDER}/${ARRAY}.c "#include \"${HEADER}\"

${declarations}
const struct device_module ${ARRAY}[] = {
${rows}};
")
