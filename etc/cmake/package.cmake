# SPDX-License-Identifier: Apache-2.0
#
# `make deb`: one package for Debian and Ubuntu, so that who uses nacre needs no compiler.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME nacre)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "runs the tasks of parallel jobs on each node")
set(CPACK_PACKAGE_DESCRIPTION "nacre run starts the tasks of an MPI program, or copies of any command, on this\n\
host, on others by ssh, or in an allocation of Slurm, PBS, LSF or Flux.\n\
.\n\
nacre-shell starts one node's share of a job, serves PMI and PMIx to MPICH and\n\
Open MPI, carries what the tasks write, and knows which one failed first, where\n\
and why. It is extended by plugins in Lua or C.")
# As Debian's own tools have it. Without, it is somebody who gets no mail.
set(maintainer "nacre maintainers <nacre@packages.invalid>")
if(DEFINED ENV{DEBEMAIL})
  set(maintainer "$ENV{DEBEMAIL}")
  if(DEFINED ENV{DEBFULLNAME} AND NOT maintainer MATCHES "<")
    set(maintainer "$ENV{DEBFULLNAME} <${maintainer}>")
  endif()
endif()
set(CPACK_PACKAGE_CONTACT ${maintainer} CACHE STRING "Who maintains the package: NAME <ADDRESS>")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# The packages of what is loaded when a job needs it, which dpkg-shlibdeps does not see. Debian 13 has other names for
# some of them than Debian 12.
set(loaded libarchive.so.13 libhwloc.so.15 libncursesw.so.6 libssl.so.3 libzstd.so.1)
list(TRANSFORM loaded PREPEND "*/" OUTPUT_VARIABLE patterns)
find_program(NACRE_DPKG_QUERY dpkg-query)
if(NACRE_DPKG_QUERY)
  execute_process(COMMAND ${NACRE_DPKG_QUERY} --search ${patterns} OUTPUT_VARIABLE owners ERROR_QUIET)
  string(REGEX MATCHALL "(^|\n)[^:\n]+" packages "${owners}")
  list(TRANSFORM packages STRIP)
  list(REMOVE_DUPLICATES packages)
  list(JOIN packages ", " CPACK_DEBIAN_PACKAGE_DEPENDS)
endif()
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "openssh-client")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_SET_DESTDIR ON)  # /etc is not below the prefix /usr
# What is packed is built already.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

# A site's changes stay when the package is replaced.
file(GLOB_RECURSE configuration RELATIVE ${PROJECT_SOURCE_DIR}/etc CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/etc/lua.d/*.lua)
list(PREPEND configuration initrc.lua)
list(TRANSFORM configuration PREPEND ${CMAKE_INSTALL_FULL_SYSCONFDIR}/nacre/shell/)
list(JOIN configuration "\n" configuration)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/package/conffiles CONTENT "@configuration@\n" @ONLY)
# mpiexec and mpirun, behind those of Open MPI (50) and MPICH (40) where they are installed.
foreach(script IN ITEMS postinst prerm)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${script}.in ${PROJECT_BINARY_DIR}/package/${script} @ONLY
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endforeach()
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/package/conffiles ${PROJECT_BINARY_DIR}/package/postinst
  ${PROJECT_BINARY_DIR}/package/prerm)
# What Debian asks of a package beside what is installed.
string(TIMESTAMP year %Y UTC)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(${CMAKE_CURRENT_LIST_DIR}/copyright.in ${PROJECT_BINARY_DIR}/package/copyright @ONLY)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/package/changelog @ONLY CONTENT
  "nacre (@PROJECT_VERSION@) unstable; urgency=medium\n\n  * Version @PROJECT_VERSION@.\n\n -- @CPACK_PACKAGE_CONTACT@  @date@\n")
configure_file(${CMAKE_CURRENT_LIST_DIR}/package_files.cmake.in ${PROJECT_BINARY_DIR}/package/package_files.cmake @ONLY)
# Whatever the umask is.
file(CHMOD ${PROJECT_BINARY_DIR}/package/conffiles ${PROJECT_BINARY_DIR}/package/copyright ${PROJECT_BINARY_DIR}/package/changelog
  PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_BINARY_DIR}/package/package_files.cmake)
include(CPack)
