# Writes torus_build.h: version, commit and engine. Run at each build; the file is touched only when
# it changes, so a new commit compiles version.cc and links, and nothing more.
cmake_minimum_required(VERSION 3.25)
execute_process(
  COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE COMMIT
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
  RESULT_VARIABLE failed)
if(failed)
  set(COMMIT unknown)
else()
  execute_process(COMMAND git -C ${SOURCE} diff --quiet HEAD -- src proto ERROR_QUIET
                  RESULT_VARIABLE changed)
  if(changed)
    string(APPEND COMMIT "+")
  endif()
endif()

set(ENGINE "XLA CPU")
file(STRINGS ${SOURCE}/scripts/deps.lock lines REGEX "^pypi +lammps-jax-pjrt-cpu ")
if(lines MATCHES "lammps-jax-pjrt-cpu +([^ ]+)")
  string(APPEND ENGINE " (lammps-jax-pjrt-cpu ${CMAKE_MATCH_1})")
endif()

file(CONFIGURE OUTPUT ${HEADER} CONTENT
"#define TORUS_VERSION \"@VERSION@\"
#define TORUS_COMMIT \"@COMMIT@\"
#define TORUS_ENGINE \"@ENGINE@\"
" @ONLY)
