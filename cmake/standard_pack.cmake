# The standard pack: the kernels that the model chooses most over the CPU suites on this machine's architecture, with
# few and with many threads, so that nearly all of those problems need no compiler at run time.
# As a script (cmake -DTESSERA=... -DCXX=... -DOUT=... -DCACHE=... -DARCHS=... -P): makes OUT/standard-<arch>.pack.
if(CMAKE_SCRIPT_MODE_FILE)
  # The cache holds the kernels of earlier builds: only changed ones are compiled again.
  set(ENV{TESSERA_CACHE_DIR} ${CACHE})
  set(ENV{TESSERA_CXX} ${CXX})
  execute_process(COMMAND ${TESSERA} arch list --json OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
  string(JSON count LENGTH "${listing}")
  math(EXPR last "${count} - 1")
  set(here "")
  set(cpus "")
  foreach(i RANGE ${last})
    string(JSON name GET "${listing}" ${i} name)
    string(JSON backend GET "${listing}" ${i} backend)
    string(JSON detected GET "${listing}" ${i} detected)
    if(backend STREQUAL "cpu")
      list(APPEND cpus ${name})
    endif()
    if(detected)
      set(here ${name})
    endif()
  endforeach()
  if(NOT here)
    message(STATUS "No standard pack: this processor is of no known architecture")
    return()
  endif()
  if(ARCHS STREQUAL "all")
    set(archs ${cpus})
  else()
    set(archs ${here})
  endif()
  file(MAKE_DIRECTORY ${OUT})
  foreach(arch IN LISTS archs)
    set(ENV{TESSERA_ARCH} ${arch})
    set(create pack create --kernels-only --quiet --out ${OUT}/standard-${arch}.pack)
    execute_process(
      COMMAND ${TESSERA} ${create} --cover 97 --thread-counts 1,2,8,32 --suite cpu_gemm --dtype f32,bf16,i8
      RESULT_VARIABLE failed)
    # Nine tenths of each suite and type: learned models choose for one thread, the analytic one for more.
    foreach(suite cpu_conv_fwd cpu_conv_bwd_data cpu_conv_bwd_weight)
      foreach(dtype f32 bf16)
        foreach(threads 1 2 8)
          if(NOT failed)
            execute_process(
              COMMAND ${TESSERA} ${create} --cover 91 --thread-counts ${threads} --add --dtype ${dtype} --suite ${suite}
              RESULT_VARIABLE failed)
          endif()
        endforeach()
      endforeach()
    endforeach()
    if(failed AND arch STREQUAL here)
      message(FATAL_ERROR "the standard pack of ${arch} could not be made")
    elseif(failed)
      message(STATUS "No standard pack for ${arch}: it takes a processor that has it")
    endif()
  endforeach()
  return()
endif()

set(TESSERA_PACK_ARCHS "here" CACHE STRING
    "Standard packs to make: here (this processor's architecture) or all (every one it can run, for packages)")
set(pack_dir ${CMAKE_BINARY_DIR}/share/tessera)
set(pack_stamp ${CMAKE_BINARY_DIR}/standard_pack.stamp)
add_custom_command(
  OUTPUT ${pack_stamp}
  COMMAND ${CMAKE_COMMAND} -DTESSERA=$<TARGET_FILE:tessera_cli> -DCXX=${CMAKE_CXX_COMPILER} -DOUT=${pack_dir}
          -DCACHE=${CMAKE_BINARY_DIR}/pack-cache -DARCHS=${TESSERA_PACK_ARCHS} -P ${CMAKE_CURRENT_LIST_FILE}
  COMMAND ${CMAKE_COMMAND} -E touch ${pack_stamp}
  DEPENDS tessera_cli ${CMAKE_CURRENT_LIST_FILE}
  COMMENT "Making the standard pack"
  USES_TERMINAL VERBATIM)
set(with_all ALL)
if(TESSERA_SANITIZE)  # its program is slow, and nobody installs it
  set(with_all "")
endif()
add_custom_target(standard_pack ${with_all} DEPENDS ${pack_stamp})
install(DIRECTORY ${pack_dir}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/tessera FILES_MATCHING PATTERN "standard-*.pack")
