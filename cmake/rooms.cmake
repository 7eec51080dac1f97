# A room is a folder under src/ that builds to one static library, with its tests beside its code.
#
#   torus_room(NAME model SOURCES a.cc b.cc DEPS torus::base PUBLIC_DEPS ...)
#   torus_test(NAME a_test SOURCES a_test.cc DEPS torus::model)
#
# An #include is written from src/ ("service/store/store.h"); a room may include only what its
# DEPS name, and the arrows point as docs/architecture.md says.
if(NOT TORUS_ALONE)  # libtpu.so alone (packaging/libtpu): no tests, and nothing for them
  include(${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake)
  include(GoogleTest)
endif()

set(TORUS_WARNINGS -Wall -Wextra -Wpedantic -Werror -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  list(APPEND TORUS_WARNINGS -Wthread-safety)  # base/mutex.h
  # libstdc++ 12's own stable_sort uses what it deprecates.
  list(APPEND TORUS_WARNINGS -Wno-deprecated-declarations)
  list(APPEND TORUS_WARNINGS -Wno-overlength-strings)  # what torus_embed makes; g++ says nothing
else()
  # g++ 12 warns falsely of `"literal" + std::string` (GCC bug 105651).
  list(APPEND TORUS_WARNINGS -Wno-restrict)
  if(TORUS_SANITIZE)  # and of writes in {fmt} once they are instrumented
    list(APPEND TORUS_WARNINGS -Wno-stringop-overflow)
  endif()
endif()

function(torus_room)
  cmake_parse_arguments(ROOM "" "NAME" "SOURCES;DEPS" ${ARGN})
  set(target torus_${ROOM_NAME})
  add_library(${target} STATIC ${ROOM_SOURCES})
  add_library(torus::${ROOM_NAME} ALIAS ${target})
  target_compile_options(${target} PRIVATE ${TORUS_WARNINGS})
  target_include_directories(${target} PUBLIC ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../src)
  target_link_libraries(${target} PUBLIC ${ROOM_DEPS})
endfunction()

function(torus_test)
  if(TORUS_ALONE)
    return()
  endif()
  cmake_parse_arguments(TEST "" "NAME" "SOURCES;DEPS" ${ARGN})
  add_executable(${TEST_NAME} ${TEST_SOURCES})
  target_compile_options(${TEST_NAME} PRIVATE ${TORUS_WARNINGS})
  target_include_directories(${TEST_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${TEST_NAME} PRIVATE ${TEST_DEPS} GTest::gmock_main)
  gtest_discover_tests(${TEST_NAME} DISCOVERY_TIMEOUT 60)
endfunction()

# A text of the tree as a C++ literal: torus_embed(TARGET room NAME boot FILE boot.sh) makes
# boot.inc, for `constexpr char kBoot[] =\n#include "boot.inc"\n;` in the room.
function(torus_embed)
  cmake_parse_arguments(embed "" "TARGET;NAME;FILE" "" ${ARGN})
  file(READ ${embed_FILE} text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${embed_FILE})
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/embedded)
  file(CONFIGURE OUTPUT ${folder}/${embed_NAME}.inc CONTENT "R\"TEXT(@text@)TEXT\"\n" @ONLY)
  target_include_directories(${embed_TARGET} PRIVATE ${folder})
endfunction()
