# The parts of plimsoll_cli that describe the build and the program: cli/version.cpp and the files of
# `plimsoll completion`, which are installed.
set(about_dir ${CMAKE_CURRENT_BINARY_DIR}/about)
file(MAKE_DIRECTORY ${about_dir})

# The commit is in a header of its own, so that a new commit compiles one file again.
find_package(Git QUIET)
add_custom_target(plimsoll_commit
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DHEADER=${about_dir}/commit/plimsoll_commit.h
          "-DGIT=${GIT_EXECUTABLE}" -P ${CMAKE_SOURCE_DIR}/cmake/Commit.cmake
  BYPRODUCTS ${about_dir}/commit/plimsoll_commit.h
  COMMENT "Reading the commit of the sources"
  VERBATIM)
add_dependencies(plimsoll_cli plimsoll_commit)

set(build_cuda none)
if(PLIMSOLL_HAS_CUDA)
  execute_process(COMMAND "${PLIMSOLL_NVCC}" --version OUTPUT_VARIABLE nvcc ERROR_QUIET)
  string(REGEX MATCH "release ([0-9.]+)" nvcc "${nvcc}")
  set(build_cuda "${CMAKE_MATCH_1}, without NCCL")
  if(PLIMSOLL_HAS_NCCL)
    set(build_cuda "${CMAKE_MATCH_1}, with NCCL")
  endif()
endif()
# ffmpeg_major and ffmpeg_packages are those of src/CMakeLists.txt: "libavformat59 libavcodec59 …".
string(REGEX REPLACE "([a-z])([0-9])" "\\1 \\2" build_ffmpeg "${ffmpeg_packages}")
string(REGEX REPLACE "([0-9]) " "\\1, " build_ffmpeg "${build_ffmpeg}")
set(build_compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}")
set(version_source ${CMAKE_CURRENT_SOURCE_DIR}/cli/version.cpp)
plimsoll_file_properties(${version_source} PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON INCLUDE_DIRECTORIES ${about_dir}/commit
  COMPILE_DEFINITIONS "PLIMSOLL_VERSION=\"${PROJECT_VERSION}\";PLIMSOLL_BUILD_CUDA=\"${build_cuda}\";PLIMSOLL_BUILD_FFMPEG=\"${ffmpeg_major} (${build_ffmpeg})\";PLIMSOLL_BUILD_COMPILER=\"${build_compiler}\"")

# After each link, because the program writes them. A program for another processor cannot run here.
if(CMAKE_CROSSCOMPILING)
  return()
endif()
set(in_environment "")
if(PLIMSOLL_SANITIZE)
  set(in_environment ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0)
endif()
foreach(target bash zsh fish man)
  list(APPEND write_all COMMAND ${in_environment} $<TARGET_FILE:plimsoll_cli> completion ${target} > ${about_dir}/${target})
endforeach()
add_custom_command(TARGET plimsoll_cli POST_BUILD ${write_all} COMMENT "Writing shell completion and the manual page" VERBATIM)
install(FILES ${about_dir}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME plimsoll)
install(FILES ${about_dir}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _plimsoll)
install(FILES ${about_dir}/fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME plimsoll.fish)
install(FILES ${about_dir}/man DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME plimsoll.1)
