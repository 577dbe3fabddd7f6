# Installs what is built into an empty folder and runs it there, builds examples/own-model against the package, and installs
# as if the optional libraries had not been built.
#
#   cmake -DBUILD=build folder -DFOLDER=empty folder -DSOURCE=source folder -DTORCH=site-packages/torch -P install_test.cmake
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
# Shell completion and the manual page.
foreach(file bash-completion/completions/plimsoll zsh/site-functions/_plimsoll fish/vendor_completions.d/plimsoll.fish
        man/man1/plimsoll.1)
  file(READ "${FOLDER}/all/share/${file}" text)
  if(NOT text MATCHES "batch_size" OR NOT text MATCHES "monitor")
    message(FATAL_ERROR "share/${file} does not have the options and commands of the program")
  endif()
endforeach()

# The package, as a user's project finds it: from a prefix that was moved, with the libtorch that it is told of.
file(RENAME "${FOLDER}/all" "${FOLDER}/moved")
run_or_fail(${CMAKE_COMMAND} -S "${SOURCE}/examples/own-model" -B "${FOLDER}/own" "-DCMAKE_PREFIX_PATH=${FOLDER}/moved"
            "-DPLIMSOLL_TORCH_DIR=${TORCH}")
run_or_fail(${CMAKE_COMMAND} --build "${FOLDER}/own")
run_or_fail("${FOLDER}/own/own_model" 64MiB)
if(NOT output MATCHES "loaded, it goes on with the same bits")
  message(FATAL_ERROR "own_model against the package:\n${output}")
endif()
# Without libtorch the message says where it was looked for.
execute_process(COMMAND ${CMAKE_COMMAND} -S "${SOURCE}/examples/own-model" -B "${FOLDER}/none"
                        "-DCMAKE_PREFIX_PATH=${FOLDER}/moved" "-DPLIMSOLL_TORCH_DIR=${FOLDER}/nothing"
                        "-DPLIMSOLL_PYTHON=${FOLDER}/no-python"
                RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(result EQUAL 0 OR NOT output MATCHES "libtorch was not found" OR NOT output MATCHES "${FOLDER}/nothing")
  message(FATAL_ERROR "find_package(plimsoll) without libtorch: ${result}\n${output}")
endif()
# What is installed names no file of the sources or of the build.
file(GLOB_RECURSE installed "${FOLDER}/moved/*.h" "${FOLDER}/moved/*.cmake")
foreach(file IN LISTS installed)
  file(STRINGS "${file}" lines REGEX "${SOURCE}/(src|include|build|cmake)")
  if(lines)
    message(FATAL_ERROR "${file} names a file of the sources: ${lines}")
  endif()
endforeach()

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
