# SPDX-License-Identifier: Apache-2.0
#
# NACRE_PORTABLE, for `make tarball` and `make wheel`: the programs run on other systems from glibc 2.34 on, wherever the tree
# is. Debian's static archives are linked in; etc/dist/needs tells what the result asks of a system.
set(older_libc ${PROJECT_SOURCE_DIR}/etc/dist/older_libc.c)
add_library(nacre_older_libc OBJECT ${older_libc})  # the programs' precompiled headers are not for C
set_target_properties(nacre_older_libc PROPERTIES POSITION_INDEPENDENT_CODE ON)
foreach(program IN ITEMS nacre-shell nacre)
  target_link_libraries(${program} PRIVATE nacre_older_libc)
endforeach()

function(nacre_copied_library soname destination)
  find_library(NACRE_${soname} ${soname} REQUIRED)
  file(REAL_PATH ${NACRE_${soname}} file)
  install(PROGRAMS ${file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/${destination} RENAME ${soname})
endfunction()

# The one library that stays shared, as plugins bring it too.
nacre_copied_library(libjansson.so.4 nacre)
set_target_properties(nacre-shell nacre PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}/nacre")

# nacre_shipped_library(SONAME SOURCE LIBRARY...): a library for systems that have none of this soname (load_library of
# base/program.hpp), with those functions that SOURCE loads of it. It has no soname, as others in the process may ask for the whole one.
function(nacre_shipped_library soname source)
  file(STRINGS ${source} lines REGEX "X\\([A-Za-z]|[.]find[(]\"")
  string(REGEX MATCHALL "X\\([A-Za-z][A-Za-z_0-9]*\\)|\"[A-Za-z][A-Za-z_0-9]*\"" functions "${lines}")
  list(TRANSFORM functions REPLACE "X\\(|\\)|\"" "")
  list(REMOVE_DUPLICATES functions)
  list(JOIN functions "; " exported)
  string(REPLACE ".so" "" target nacre_shipped_${soname})
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${soname}.map)
  file(CONFIGURE OUTPUT ${script} CONTENT "{ global: @exported@; local: *; };\n" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  add_library(${target} MODULE ${older_libc} base/libc_data.cpp)
  nacre_keep_libc_data(${target})  # these archives, too, are made for programs
  list(TRANSFORM functions PREPEND LINKER:-u,)
  target_compile_options(${target} PRIVATE -fno-exceptions)
  target_link_options(${target} PRIVATE LINKER:--version-script=${script} LINKER:--gc-sections LINKER:-z,defs
    LINKER:-z,relro LINKER:-z,now LINKER:--as-needed ${functions})
  target_link_libraries(${target} PRIVATE ${ARGN} Threads::Threads ${CMAKE_DL_LIBS})
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${soname} SUFFIX "" NO_SONAME ON LINKER_LANGUAGE C
    INTERPROCEDURAL_OPTIMIZATION OFF LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/shipped)
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/nacre/shipped)
endfunction()

foreach(name IN ITEMS archive lzma zstd z ssl crypto ncursesw tinfo)
  find_library(NACRE_${name}_ARCHIVE lib${name}.a REQUIRED)
endforeach()
nacre_shipped_library(libarchive.so.13 archive/library.hpp ${NACRE_archive_ARCHIVE} ${NACRE_lzma_ARCHIVE} ${NACRE_zstd_ARCHIVE}
  ${NACRE_z_ARCHIVE})
nacre_shipped_library(libzstd.so.1 archive/create.cpp ${NACRE_zstd_ARCHIVE})
nacre_shipped_library(libssl.so.3 transport/openssl.hpp ${NACRE_ssl_ARCHIVE} ${NACRE_crypto_ARCHIVE})
nacre_shipped_library(libncursesw.so.6 front/top_screen.cpp ${NACRE_ncursesw_ARCHIVE} ${NACRE_tinfo_ARCHIVE})
nacre_copied_library(libhwloc.so.15 nacre/shipped)  # its archive cannot be part of a shared library
target_compile_definitions(nacre_options INTERFACE NACRE_SHIPPED="${bin_to_lib}/nacre/shipped")
