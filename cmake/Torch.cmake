# libtorch from the PyPI wheel, linked by hand: find_package(Torch) demands a CUDA toolkit where the wheel is a CUDA build.
# Defines the target `torch` (headers, libtorch_cpu, libc10), PLIMSOLL_TORCH_LIB_DIR, PLIMSOLL_TORCH_VERSION ("2.11.0"),
# PLIMSOLL_TORCH_SERIES ("2.11") and PLIMSOLL_TORCH_NCCL ("2.28").

# The series of torch that the sources compile with (src/ops/torch_version.h), each with the NCCL that its wheel is compiled with.
set(_supported 2.11:2.28 2.12:2.29 2.13:2.29 2.14:2.30 2.15:2.30)
if(NOT PLIMSOLL_TORCH_DIR)
  if(DEFINED ENV{PLIMSOLL_TORCH_DIR})
    set(_torch "$ENV{PLIMSOLL_TORCH_DIR}")
  else()
    file(GLOB _torch "${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
  endif()
  set(PLIMSOLL_TORCH_DIR "${_torch}" CACHE PATH "" FORCE)
endif()
if(NOT EXISTS "${PLIMSOLL_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "libtorch not found (looked in '${PLIMSOLL_TORCH_DIR}'). Run 'make setup' to install torch into .venv, "
                      "or set PLIMSOLL_TORCH_DIR to the torch folder of an installed wheel.")
endif()
set(PLIMSOLL_TORCH_VERSION "of an unknown version")
if(EXISTS "${PLIMSOLL_TORCH_DIR}/version.py")
  file(STRINGS "${PLIMSOLL_TORCH_DIR}/version.py" _version REGEX "^__version__")
  if(_version MATCHES "([0-9]+\\.[0-9]+)\\.[0-9]+")
    set(PLIMSOLL_TORCH_VERSION ${CMAKE_MATCH_0})
    set(PLIMSOLL_TORCH_SERIES ${CMAKE_MATCH_1})
  endif()
endif()
set(_series "")
foreach(_each ${_supported})
  string(REPLACE ":" ";" _each ${_each})
  list(GET _each 0 _one)
  list(APPEND _series ${_one})
  if(_one STREQUAL "${PLIMSOLL_TORCH_SERIES}")
    list(GET _each 1 PLIMSOLL_TORCH_NCCL)
  endif()
endforeach()
if(NOT PLIMSOLL_TORCH_NCCL)
  list(JOIN _series ", " _series)
  message(FATAL_ERROR "PLIMSOLL_TORCH_DIR: torch is ${PLIMSOLL_TORCH_VERSION} in '${PLIMSOLL_TORCH_DIR}'; allowed: ${_series}; "
                      "set PLIMSOLL_TORCH_DIR to the torch folder of one of them, or unset it and run 'make setup'.")
endif()
set(PLIMSOLL_TORCH_LIB_DIR "${PLIMSOLL_TORCH_DIR}/lib")
foreach(lib torch_cpu c10)
  add_library(${lib} SHARED IMPORTED GLOBAL)
  set_target_properties(${lib} PROPERTIES IMPORTED_LOCATION "${PLIMSOLL_TORCH_LIB_DIR}/lib${lib}.so")
endforeach()
add_library(torch INTERFACE)
target_include_directories(torch SYSTEM INTERFACE "${PLIMSOLL_TORCH_DIR}/include"
                                                  "${PLIMSOLL_TORCH_DIR}/include/torch/csrc/api/include")
target_link_libraries(torch INTERFACE torch_cpu c10)
# at::parallel_for is a header template that runs on one thread unless it is compiled with OpenMP, as libtorch was; at
# run time the wheel's own libgomp serves both.
target_compile_options(torch INTERFACE -fopenmp)
target_link_options(torch INTERFACE -fopenmp)
# libtorch_cpu.so names CUDA runtime libraries that its own run path finds; the linker need not.
target_link_options(torch INTERFACE -Wl,--allow-shlib-undefined "-Wl,-rpath,${PLIMSOLL_TORCH_LIB_DIR}")
