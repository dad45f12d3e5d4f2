# SPDX-License-Identifier: Apache-2.0
#
# What every folder of the project shares: compiler options, one library a folder, third-party libraries.

add_library(nacre_options INTERFACE)
target_compile_options(nacre_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-gnu-statement-expression>
  -fvisibility=hidden -fno-semantic-interposition)
target_include_directories(nacre_options INTERFACE ${PROJECT_SOURCE_DIR}/shell)
if(NOT NACRE_SANITIZE AND NOT NACRE_LTO)
  # A shell runs with a stack of 64 KiB (t/e2e/start.bats). Sanitizers and what a linker inlines make larger frames, and so do
  # cases of unit tests.
  target_compile_options(nacre_options INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:NACRE_PLAIN>>>:-Wframe-larger-than=40960>)
endif()
if(NACRE_SANITIZE)
  # Left out of a build that is to be fast: what ASan sees too, or a processor of today does not mind; and UBSan and the
  # numbers of lines of code that is not what is tested (the property NACRE_PLAIN of a target; Catch2 names a check's line
  # itself). The build of `make check-long` has all of it.
  set(fast $<BOOL:${NACRE_UNITY}>)
  set(plain $<AND:${fast},$<BOOL:$<TARGET_PROPERTY:NACRE_PLAIN>>>)
  target_compile_options(nacre_options INTERFACE -fsanitize=address -fno-omit-frame-pointer
    $<$<NOT:${plain}>:-fsanitize=undefined$<SEMICOLON>-fno-sanitize-recover=undefined>
    $<$<AND:${fast},$<NOT:${plain}>>:-fno-sanitize=null,alignment,object-size,vptr>
    $<${plain}:-g0>)
  target_link_options(nacre_options INTERFACE -fsanitize=address,undefined)
endif()
if(NACRE_PRECOMPILE)
  target_compile_options(nacre_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # for ccache
endif()
if(NACRE_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 45)  # 16 took an eighth more of the processor's time than 40, and 8 a half
  # What a source keeps to itself looks as if it came from a header.
  target_compile_options(nacre_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-shadow>)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(CMAKE_CXX_FLAGS_RELEASE "${NACRE_OPTIMIZE}")
  set(CMAKE_C_FLAGS_RELEASE "${NACRE_OPTIMIZE}")
endif()
# What is installed is hardened as Debian's packages are, with all relocations read-only; what is only tested has the
# standard library's assertions instead.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT NACRE_OPTIMIZE STREQUAL "-O0" AND NOT NACRE_SANITIZE)
  target_compile_options(nacre_options INTERFACE -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  target_link_options(nacre_options INTERFACE LINKER:-z,relro LINKER:-z,now)
else()
  target_compile_definitions(nacre_options INTERFACE _GLIBCXX_ASSERTIONS)
endif()
set(linker default)
if(NACRE_LTO)
  set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
else()
  # Where there is a faster linker, it is used; GCC's link-time optimisation needs its own.
  find_program(NACRE_LINKER NAMES mold ld.lld)
  if(NACRE_LINKER)
    cmake_path(GET NACRE_LINKER FILENAME linker)
    string(REPLACE "ld." "" linker ${linker})
    add_link_options(-fuse-ld=${linker})
  endif()
endif()

# A static archive of a library where there is one: each shared library costs every job start-up time. `pc`: the names that systems
# have for it, of which the first that is there counts.
function(nacre_static_library name pc)
  pkg_search_module(${name} REQUIRED ${pc})
  add_library(nacre::${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(nacre::${name} SYSTEM INTERFACE ${${name}_INCLUDE_DIRS})
  find_library(${name}_ARCHIVE NAMES ${ARGN})
  if(${name}_ARCHIVE)
    target_link_libraries(nacre::${name} INTERFACE ${${name}_ARCHIVE} Threads::Threads ${CMAKE_DL_LIBS})
  else()
    target_link_libraries(nacre::${name} INTERFACE ${${name}_LINK_LIBRARIES})
  endif()
  set_property(GLOBAL APPEND PROPERTY NACRE_FOUND "${${name}_MODULE_NAME} ${${name}_VERSION}")
endfunction()

# nacre_order_functions(PROGRAM FILE): links the functions that FILE names side by side, so that a start reads few pages:
# each 64 KiB of a program that is read, which a page fault maps at once, costs some microseconds. Only with link-time
# optimisation, which makes the sections then, and by a linker that adds a script to its own (GNU's does). Valgrind names
# only what is in .text: -DNACRE_ORDERS_FUNCTIONS=OFF leaves all there.
function(nacre_order_functions program file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} names)
  set(groups)
  foreach(name IN LISTS names)
    if(name MATCHES "^#")
      string(APPEND groups "    )\n    *(\n")
    elseif(name MATCHES "\\*$")
      string(APPEND groups "      .text.${name}\n")
    else()
      string(APPEND groups "      .text.${name} .text.${name}.*\n")
    endif()
  endforeach()
  # libuv's archive has a section for each source.
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${program}.order)
  file(CONFIGURE OUTPUT ${script} @ONLY CONTENT "SECTIONS
{
  .text.at_start :
  {
    *libuv*.a:core.c.o(.text) *libuv*.a:epoll.c.o(.text) *libuv*.a:linux-core.c.o(.text) *libuv*.a:loop.c.o(.text)
    *libuv*.a:loop-watcher.c.o(.text) *libuv*.a:poll.c.o(.text) *libuv*.a:signal.c.o(.text) *libuv*.a:timer.c.o(.text)
    *(.text.main
@groups@    )
  }
}
INSERT BEFORE .text;
")
  check_linker_flag(CXX -Wl,-T,${script} NACRE_ORDERS_FUNCTIONS)
  if(NACRE_ORDERS_FUNCTIONS)
    target_link_options(${program} PRIVATE -ffunction-sections -Wl,-T,${script})
    set_property(TARGET ${program} APPEND PROPERTY LINK_DEPENDS ${script})
  endif()
endfunction()

# The big headers, read once for the folders (by nacre_base) and once for their tests. The Clang build of
# `make check-long` does without, and so finds a missing #include. None of nacre's own is among them: ccache takes a
# precompiled header from before a comment was changed, and GCC's `#pragma once` then includes the changed file again.
set(nacre_big_headers <algorithm> <chrono> <functional> <map> <memory> <optional> <string> <string_view> <vector>
  <fmt/format.h> <tl/expected.hpp> <nlohmann/json.hpp> ${CMAKE_CURRENT_LIST_DIR}/usual_templates.hpp)
function(nacre_precompile target owner)
  if(NOT NACRE_PRECOMPILE)
    return()
  elseif(target STREQUAL owner)
    target_precompile_headers(${target} PRIVATE ${nacre_big_headers} ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# nacre_even_batches(TARGET): its sources in as few batches as there have to be, with about as many bytes each: one that is twice
# as long as the others is compiled alone at the end, while the other processors wait.
function(nacre_even_batches target)
  if(NOT NACRE_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  math(EXPR batches "(${count} + ${CMAKE_UNITY_BUILD_BATCH_SIZE} - 1) / ${CMAKE_UNITY_BUILD_BATCH_SIZE}")
  set(all 0)
  foreach(source IN LISTS sources)
    file(SIZE ${source} size)
    math(EXPR all "${all} + ${size}")
  endforeach()
  set(before 0)
  foreach(source IN LISTS sources)
    file(SIZE ${source} size)
    math(EXPR batch "(${before} + ${size} / 2) * ${batches} / ${all}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${batch})
    math(EXPR before "${before} + ${size}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

# nacre_folder(NAME [LAYER layer] [USES folder...] [LIBRARIES target...] [INCLUDES folder...]): the library of shell/NAME, from all
# its sources. A build that is to be fast compiles the folders of a layer together, into one library: what they have of the
# same templates is compiled once, which takes a sixth less of the processor's time. A folder comes after those
# of its layer that it uses.
function(nacre_folder name)
  cmake_parse_arguments(arg "" "LAYER" "USES;LIBRARIES;INCLUDES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  set(library nacre_${name})
  if(arg_LAYER AND NACRE_UNITY AND NOT NACRE_LTO)
    set(library nacre_layer_${arg_LAYER})
    add_library(nacre_${name} INTERFACE)
    target_link_libraries(nacre_${name} INTERFACE ${library})
    set_property(GLOBAL APPEND PROPERTY ${library} ${name})
    get_property(same_layer GLOBAL PROPERTY ${library})
    list(REMOVE_ITEM arg_USES ${same_layer})
  endif()
  if(TARGET ${library})
    target_sources(${library} PRIVATE ${sources})
  else()
    add_library(${library} STATIC ${sources})
    nacre_precompile(${library} nacre_base)
  endif()
  nacre_even_batches(${library})
  list(TRANSFORM arg_USES PREPEND nacre_)
  target_link_libraries(${library} PUBLIC nacre_options ${arg_USES} ${arg_LIBRARIES})
  target_include_directories(${library} SYSTEM PUBLIC ${arg_INCLUDES})
endfunction()

function(nacre_summary)
  get_property(found GLOBAL PROPERTY NACRE_FOUND)
  list(JOIN found ", " found)
  message(STATUS "nacre ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, sanitizers ${NACRE_SANITIZE}, LTO ${NACRE_LTO}, linker ${linker}")
  message(STATUS "  libraries: nlohmann_json ${nlohmann_json_VERSION}, fmt ${fmt_VERSION}, CLI11 ${CLI11_VERSION}, ${found}")
endfunction()
