# Libraries of Debian that the sources and the fuzz targets (tests/fuzz) need, and ccache.
find_package(fmt REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(FFMPEG REQUIRED IMPORTED_TARGET libavformat libavcodec libavutil libswscale libswresample)
# Not by its .pc file, which names the trainer's library too: only tests train.
find_library(SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)
# Nor this one, whose .pc file defines a macro that only building it as a static library on Windows has a use for.
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
