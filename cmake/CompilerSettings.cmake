# Language level, warnings, sanitizers, ccache and mold.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

set(PSGD_SANITIZE "" CACHE STRING "Sanitizers to build with, as for -fsanitize=")
set(PSGD_FUZZER OFF CACHE BOOL "Fuzz targets run under Clang's libFuzzer")
set(PSGD_CUDA AUTO CACHE STRING "CUDA twins: AUTO, ON or OFF")
set_property(CACHE PSGD_CUDA PROPERTY STRINGS AUTO ON OFF)

# Fields that {.a = 1} does not name have their defaults, which is no mistake.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
# a*b+c is not contracted into a fused operation, so the same seed gives the same bits on every CPU.
add_compile_options(-ffp-contract=off -fno-math-errno)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # The compiler collects garbage less often: saves a sixth of its time for 50 MB.
  add_compile_options(--param=ggc-min-expand=200 --param=ggc-min-heapsize=1000000)
endif()
if(CMAKE_BUILD_TYPE STREQUAL Release)
  # Drops functions and data that a program does not use.
  add_compile_options(-g1 -ffunction-sections -fdata-sections)
  add_link_options(-Wl,--gc-sections)
endif()
# All code that libFuzzer inspects needs this option; targets link libFuzzer themselves.
if(PSGD_FUZZER)
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
if(PSGD_SANITIZE)
  add_compile_options(-fsanitize=${PSGD_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${PSGD_SANITIZE})
endif()

find_program(PSGD_CCACHE ccache)
if(PSGD_CCACHE)
  # CCACHE_SLOPPINESS lets it cache objects that use a precompiled header. With CCACHE_DEPEND it learns
  # the headers from the compiler, and skips the preprocessor. With CCACHE_BASEDIR and
  # -fdebug-prefix-map no object has a path of the clone, so another clone can use it. A debugger finds
  # the sources if it starts in their folder.
  set(PSGD_CCACHE ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${PSGD_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PSGD_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-fpch-preprocess -fdebug-prefix-map=${CMAKE_SOURCE_DIR}=.)
  endif()
endif()
find_program(PSGD_MOLD mold)
if(PSGD_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
