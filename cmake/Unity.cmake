# Files of one folder compiled together, a few at a time: what a file includes, and the templates that it makes of it, cost more
# than the file. A build from nothing takes half the time. Names in anonymous namespaces are therefore one file's in a folder.
# Off where one file is compiled again and again (preset `dev`) and where tools want a command for each file (preset `tidy`).
option(PLIMSOLL_UNITY "Compile the files of a folder together" ON)

# plimsoll_compile_together(TARGET MOST SOURCE...): groups of at most MOST files of one folder each. A file with
# SKIP_UNITY_BUILD_INCLUSION belongs to no group. CMake compiles a file with options of its own alone.
function(plimsoll_compile_together target most)
  if(NOT PLIMSOLL_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set(folders "")
  foreach(source IN LISTS ARGN)
    get_filename_component(folder "${source}" DIRECTORY)
    list(APPEND folders "${folder}")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    file(RELATIVE_PATH group "${CMAKE_CURRENT_SOURCE_DIR}" "${folder}")
    string(MAKE_C_IDENTIFIER "${group}" group)
    set(count 0)
    foreach(source IN LISTS ARGN)
      get_filename_component(of "${source}" DIRECTORY)
      get_source_file_property(alone "${source}" SKIP_UNITY_BUILD_INCLUSION)
      if(of STREQUAL folder AND NOT alone)
        math(EXPR part "${count} / ${most}")
        math(EXPR count "${count} + 1")
        set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}_${part}")
      endif()
    endforeach()
  endforeach()
endfunction()

# plimsoll_file_properties(FILE... PROPERTIES NAME VALUE...): as set_source_files_properties, which takes names of files that do
# not exist: a file with another name would lose its flags.
function(plimsoll_file_properties)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "" PROPERTIES)
  foreach(file IN LISTS ARG_UNPARSED_ARGUMENTS)
    get_filename_component(path "${file}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
    if(NOT EXISTS "${path}")
      message(FATAL_ERROR "plimsoll_file_properties: ${file} does not exist; write the name that the file has now")
    endif()
  endforeach()
  set_source_files_properties(${ARG_UNPARSED_ARGUMENTS} PROPERTIES ${ARG_PROPERTIES})
endfunction()
