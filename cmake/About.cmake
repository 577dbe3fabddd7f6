# The part of plimsoll_cli that describes the build: cli/about/version.cpp.
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
set(version_source ${CMAKE_CURRENT_SOURCE_DIR}/cli/about/version.cpp)
set_source_files_properties(${version_source} PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON INCLUDE_DIRECTORIES ${about_dir}/commit
  COMPILE_DEFINITIONS "PLIMSOLL_VERSION=\"${PROJECT_VERSION}\";PLIMSOLL_BUILD_CUDA=\"${build_cuda}\";PLIMSOLL_BUILD_FFMPEG=\"${ffmpeg_major} (${build_ffmpeg})\";PLIMSOLL_BUILD_COMPILER=\"${build_compiler}\"")
