# compile_together(TARGET SOURCE...): several sources of one folder in one compilation, which reads their headers once
# and takes half of the time. Private names are unique within a folder for its sake.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(together 8)
else()
  set(together 1)  # each by itself, so that none comes to need what another includes
endif()
set(TESSERA_TOGETHER ${together} CACHE STRING "Sources of one folder that are compiled together; 1: each by itself")

function(compile_together target)
  if(TESSERA_TOGETHER LESS 2)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS ARGN)
    file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${source})
    get_filename_component(folder ${folder} DIRECTORY)
    string(MAKE_C_IDENTIFIER ${folder} folder)
    math(EXPR group "0${count_${folder}} / ${TESSERA_TOGETHER}")
    math(EXPR count_${folder} "0${count_${folder}} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
  endforeach()
endfunction()
