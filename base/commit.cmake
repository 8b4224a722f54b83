# Writes OUT, build_commit() of build_info.h with the commit that SOURCE is at, when it says something else than before: one
# small file is compiled anew, and nothing where the commit is the same. KVFERRY_COMMIT of the environment is believed instead: for a
# build from sources without their repository.
cmake_minimum_required(VERSION 3.22)
find_program(GIT git)
set(commit "unknown")
if("$ENV{KVFERRY_COMMIT}" MATCHES "^([0-9a-f]+)[+]?")
    string(SUBSTRING "${CMAKE_MATCH_1}" 0 12 commit)
elseif(GIT)
    execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-prefix --short=12 HEAD
        OUTPUT_VARIABLE found RESULT_VARIABLE failed ERROR_QUIET)
    # A prefix: SOURCE lies in somebody else's repository.
    if(NOT failed AND found MATCHES "^\n([0-9a-f]+)\n$")
        set(found ${CMAKE_MATCH_1})
        set(commit ${found})
        execute_process(COMMAND ${GIT} -C ${SOURCE} diff --quiet HEAD -- RESULT_VARIABLE differs ERROR_QUIET)
        if(differs)
            string(APPEND commit "+")
        endif()
    endif()
endif()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT "#include \"base/build_info.h\"

const char *build_commit(void)
{
    return \"@commit@\";
}
")
