# The CUDA compiler and headers, for libplimsoll_cuda: from the wheels beside torch (scripts/setup.sh installs them), or
# from an installed toolkit. Nothing of this is needed to run where there is no NVIDIA device, and no device or driver is
# needed to build. Defines PLIMSOLL_HAS_CUDA, the target `cuda_runtime` and plimsoll_cuda_objects().
set(PLIMSOLL_CUDA "AUTO" CACHE STRING "Build the backend for NVIDIA devices: AUTO (where a compiler is found), ON, OFF")
set(PLIMSOLL_CUDA_ARCHITECTURES "75-virtual;80;90" CACHE STRING
    "Compute capabilities that kernels are compiled for; -virtual: as PTX, which the driver compiles for any later one")
set(PLIMSOLL_HAS_CUDA OFF)
# What was found beside one torch is looked for again beside another.
if(DEFINED PLIMSOLL_CUDA_TORCH AND NOT PLIMSOLL_CUDA_TORCH STREQUAL PLIMSOLL_TORCH_DIR)
  foreach(_found PLIMSOLL_NVCC PLIMSOLL_CUDART PLIMSOLL_CUDA_INCLUDE PLIMSOLL_NCCL_INCLUDE PLIMSOLL_CUDA_MATH_INCLUDE)
    unset(${_found} CACHE)
  endforeach()
endif()
set(PLIMSOLL_CUDA_TORCH "${PLIMSOLL_TORCH_DIR}" CACHE INTERNAL "The torch that CUDA was looked for beside")
get_filename_component(_site "${PLIMSOLL_TORCH_DIR}" DIRECTORY)
set(_wheels "${_site}/nvidia/cu13")
# Beside another torch there may be no compiler: that of .venv serves it, because objects of CUDA 13.0 link with the runtime of any 13.x.
file(GLOB _compilers "${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13/bin")
find_program(PLIMSOLL_NVCC nvcc HINTS "${_wheels}/bin" ${_compilers} ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin
             PATHS /usr/local/cuda/bin /usr/local/cuda-13.0/bin)
set(_toolkit /usr/local/cuda)
if(PLIMSOLL_NVCC)
  get_filename_component(_toolkit "${PLIMSOLL_NVCC}" REALPATH)
  get_filename_component(_toolkit "${_toolkit}" DIRECTORY)
  get_filename_component(_toolkit "${_toolkit}" DIRECTORY)
endif()
# Tests that run kernels on the CPU need the headers also without a compiler.
find_path(PLIMSOLL_CUDA_INCLUDE cuda_runtime_api.h HINTS "${_wheels}/include" "${_toolkit}/include" /usr/local/cuda/include NO_DEFAULT_PATH)
if(PLIMSOLL_CUDA STREQUAL "OFF")
  return()
endif()

set(_missing "")
if(NOT PLIMSOLL_NVCC)
  set(_missing "no CUDA compiler (nvcc) was found")
else()
  execute_process(COMMAND "${PLIMSOLL_NVCC}" --version OUTPUT_VARIABLE _version ERROR_QUIET)
  if(NOT _version MATCHES "release 13\\.")
    set(_missing "${PLIMSOLL_NVCC} is not of CUDA 13, which this libtorch is built with")
  endif()
endif()
find_library(PLIMSOLL_CUDART NAMES libcudart.so.13 HINTS "${_wheels}/lib" "${_toolkit}/lib64" NO_DEFAULT_PATH)
if(NOT PLIMSOLL_CUDA_INCLUDE OR NOT PLIMSOLL_CUDART)
  set(_missing "CUDA's runtime (cuda_runtime_api.h, libcudart.so.13) was not found")
elseif(NOT EXISTS "${PLIMSOLL_TORCH_LIB_DIR}/libtorch_cuda.so")
  set(_missing "this libtorch has no CUDA in it")
endif()
if(_missing)
  if(PLIMSOLL_CUDA STREQUAL "ON")
    message(FATAL_ERROR "PLIMSOLL_CUDA is ON, and ${_missing}. Run 'make setup', or set PLIMSOLL_NVCC.")
  endif()
  message(STATUS "No backend for NVIDIA devices: ${_missing}")
  return()
endif()
set(PLIMSOLL_HAS_CUDA ON)

foreach(lib torch_cuda c10_cuda)
  add_library(${lib} SHARED IMPORTED GLOBAL)
  set_target_properties(${lib} PROPERTIES IMPORTED_LOCATION "${PLIMSOLL_TORCH_LIB_DIR}/lib${lib}.so")
endforeach()
add_library(cuda_runtime INTERFACE)
target_include_directories(cuda_runtime SYSTEM INTERFACE "${PLIMSOLL_CUDA_INCLUDE}")
target_link_libraries(cuda_runtime INTERFACE "${PLIMSOLL_CUDART}")

# Exchanges between devices: libtorch's header of its group on NCCL needs those of NCCL, cuBLAS, cuSPARSE and cuSOLVER. They
# come with torch's CUDA wheels or a toolkit, and are not needed otherwise. The layout of NCCL's options depends on its
# version, PLIMSOLL_TORCH_NCCL.
find_path(PLIMSOLL_NCCL_INCLUDE nccl.h HINTS "${PLIMSOLL_TORCH_DIR}/../nvidia/nccl/include" "${_wheels}/include"
          "${_toolkit}/include" PATHS /usr/local/cuda-13.0/include /usr/local/cuda/include)
find_path(PLIMSOLL_CUDA_MATH_INCLUDE NAMES cusolverDn.h HINTS "${PLIMSOLL_CUDA_INCLUDE}" "${_wheels}/include"
          "${_toolkit}/include" PATHS /usr/local/cuda-13.0/include /usr/local/cuda/include)
set(PLIMSOLL_HAS_NCCL OFF)
if(PLIMSOLL_NCCL_INCLUDE AND PLIMSOLL_CUDA_MATH_INCLUDE)
  file(STRINGS "${PLIMSOLL_NCCL_INCLUDE}/nccl.h" _nccl REGEX "^#define NCCL_(MAJOR|MINOR) ")
  string(REGEX REPLACE "^2\\." "" _minor "${PLIMSOLL_TORCH_NCCL}")
  if(_nccl MATCHES "MAJOR 2;.*MINOR ${_minor}$")
    set(PLIMSOLL_HAS_NCCL ON)
  endif()
endif()
if(NOT PLIMSOLL_HAS_NCCL)
  message(STATUS "No headers of NCCL ${PLIMSOLL_TORCH_NCCL} (nccl.h, cusolverDn.h): NVIDIA devices are used one at a time")
endif()

set(_codes "")
foreach(architecture ${PLIMSOLL_CUDA_ARCHITECTURES})
  string(REGEX REPLACE "-virtual$" "" number "${architecture}")
  if(architecture MATCHES "-virtual$")
    list(APPEND _codes "-gencode=arch=compute_${number},code=compute_${number}")
  else()
    list(APPEND _codes "-gencode=arch=compute_${number},code=sm_${number}")
  endif()
endforeach()
# The compiler for the host's side does not know how device loops are unrolled, and need not.
set(PLIMSOLL_NVCC_FLAGS -std=c++20 -O3 ${_codes} --expt-relaxed-constexpr -Xcompiler -fPIC,-Wall,-Wno-unknown-pragmas)

# Compiles .cu files by nvcc; OUT gets the objects. (Not CMake's own CUDA: it wants to link a program first, which the
# wheels have no libraries for.)
function(plimsoll_cuda_objects OUT)
  set(objects "")
  set(launcher "")
  if(CCACHE)
    set(launcher "${CCACHE}")
  endif()
  foreach(source ${ARGN})
    get_filename_component(name "${source}" NAME_WE)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/cuda/${name}.o")
    add_custom_command(
      OUTPUT "${object}"
      COMMAND ${CMAKE_COMMAND} -E make_directory "${CMAKE_CURRENT_BINARY_DIR}/cuda"
      COMMAND ${launcher} "${PLIMSOLL_NVCC}" ${PLIMSOLL_NVCC_FLAGS} "-I${CMAKE_SOURCE_DIR}/src" "-I${CMAKE_SOURCE_DIR}/include"
              -MD -MF "${object}.d" -c "${source}" -o "${object}"
      DEPENDS "${source}"
      DEPFILE "${object}.d"
      COMMENT "Building CUDA object ${name}"
      VERBATIM)
    list(APPEND objects "${object}")
  endforeach()
  set(${OUT} "${objects}" PARENT_SCOPE)
endfunction()
