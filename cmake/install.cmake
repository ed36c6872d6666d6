# cmake --install gives a package that may be moved anywhere: nothing in it names the prefix.
include(CMakePackageConfigHelpers)

install(TARGETS tessera tessera_c EXPORT TesseraTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/tessera DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT TesseraTargets NAMESPACE Tessera:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tessera)
configure_package_config_file(cmake/TesseraConfig.cmake.in ${CMAKE_BINARY_DIR}/TesseraConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tessera
                              NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TesseraConfig.cmake ${CMAKE_BINARY_DIR}/TesseraConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tessera)

# The .pc file finds its prefix from where it lies.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
set(pc_needs "${openmp_runtime} -lsqlite3 -lpthread -ldl")
set(pc_libs "")
if(NOT TESSERA_SHARED)
  set(pc_libs " ${pc_needs}")  # the only library there is needs them at every link
endif()
configure_file(cmake/tessera.pc.in ${CMAKE_BINARY_DIR}/tessera.pc @ONLY)
configure_file(cmake/tessera_c.pc.in ${CMAKE_BINARY_DIR}/tessera_c.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tessera.pc ${CMAKE_BINARY_DIR}/tessera_c.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES LICENSE README.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
# What these pages link to lies where the links say.
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING REGEX "\\.(md|html)$" PATTERN man EXCLUDE)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING REGEX "\\.(h|c|cpp|py)$")
install(FILES suites/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/suites)
install(DIRECTORY suites DESTINATION ${CMAKE_INSTALL_DATADIR}/tessera)
install(FILES docs/man/tessera.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

install(TARGETS tessera_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT TESSERA_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  include(cmake/standard_pack.cmake)
endif()

# Shell completions, printed by the program itself.
set(completion_dir ${CMAKE_BINARY_DIR}/completions)
set(completion_files)
foreach(row "bash|tessera|bash-completion/completions" "zsh|_tessera|zsh/site-functions"
            "fish|tessera.fish|fish/vendor_completions.d")
  string(REPLACE "|" ";" row "${row}")
  list(GET row 0 shell)
  list(GET row 1 file)
  list(GET row 2 folder)
  set(out ${completion_dir}/${shell}/${file})
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${completion_dir}/${shell}
    COMMAND tessera_cli completion ${shell} > ${out}
    DEPENDS tessera_cli
    VERBATIM)
  list(APPEND completion_files ${out})
  install(FILES ${out} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder})
endforeach()
add_custom_target(completions ALL DEPENDS ${completion_files})
