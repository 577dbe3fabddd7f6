# Files of one folder compiled together, a few at a time: what a file includes, and the templates that it makes of it, cost more
# than the file. A build from nothing takes half the time. Names in anonymous namespaces are therefore one file's in a folder.
# Off where one file is compiled again and again (preset `dev`) and where tools want a command for each file (preset `tidy`).
option(PLIMSOLL_UNITY "Compile the files of a folder together" ON)

# plimsoll_compile_together(TARGET MOST SOURCE...): groups of at most MOST files of one folder each. CMake compiles a file
# with options of its own alone.
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
      if(of STREQUAL folder)
        math(EXPR part "${count} / ${most}")
        math(EXPR count "${count} + 1")
        set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}_${part}")
      endif()
    endforeach()
  endforeach()
endfunction()
