# Writes the commit of the sources to a header, if it is not in the header already: the build runs this each time.
#
#   cmake -DSOURCE=source folder -DHEADER=file -DGIT=git or empty -P Commit.cmake
#
# PLIMSOLL_COMMIT is a short hash, with ", modified" if files of the commit are changed, or "unknown" where the folder is no
# git repository of its own: the folder of a source archive.
set(commit unknown)
if(GIT)
  set(ENV{GIT_OPTIONAL_LOCKS} 0)
  execute_process(COMMAND "${GIT}" -C "${SOURCE}" rev-parse --show-toplevel RESULT_VARIABLE failed OUTPUT_VARIABLE top
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${SOURCE}" SOURCE)
  if(NOT failed AND top STREQUAL SOURCE)
    execute_process(COMMAND "${GIT}" -C "${SOURCE}" rev-parse --short=9 HEAD RESULT_VARIABLE failed OUTPUT_VARIABLE hash
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND "${GIT}" -C "${SOURCE}" status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
    if(NOT failed)
      set(commit "${hash}")
      if(changes)
        string(APPEND commit ", modified")
      endif()
    endif()
  endif()
endif()
set(text "#define PLIMSOLL_COMMIT \"${commit}\"\n")
set(old "")
if(EXISTS "${HEADER}")
  file(READ "${HEADER}" old)
endif()
if(NOT old STREQUAL text)
  file(WRITE "${HEADER}" "${text}")
endif()
