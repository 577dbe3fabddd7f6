# Installs what is built into an empty folder and runs it there; then as if the optional libraries had not been built.
#
#   cmake -DBUILD=build folder -DFOLDER=empty folder -P install_test.cmake
function(run_or_fail)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${result}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${FOLDER}")
run_or_fail(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${FOLDER}/all")
run_or_fail("${FOLDER}/all/bin/plimsoll" gpus)
if(NOT output MATCHES "h100")
  message(FATAL_ERROR "The installed program does not list devices:\n${output}")
endif()

# The install script of src/, with optional libraries where there are none.
file(READ "${BUILD}/src/cmake_install.cmake" script)
string(REGEX REPLACE "/libplimsoll_(cuda|media)\\.so" "/not-built/libplimsoll_\\1.so" script "${script}")
file(WRITE "${FOLDER}/cmake_install.cmake" "${script}")
run_or_fail(${CMAKE_COMMAND} -DCMAKE_INSTALL_PREFIX=${FOLDER}/some -P "${FOLDER}/cmake_install.cmake")
if(NOT output MATCHES "Left out: plimsoll_media")
  message(FATAL_ERROR "Nothing is said of what is left out:\n${output}")
endif()
run_or_fail("${FOLDER}/some/bin/plimsoll" gpus)
file(REMOVE_RECURSE "${FOLDER}")
