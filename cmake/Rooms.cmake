# Headers that most sources include are compiled once, for rooms and programs here and for tests below:
# a third of the time. All users need the same compile options: GCC optimizes a source as its
# precompiled header, whatever level of optimization the source has. Headers of messages are among
# them, so they are generated first.
file(WRITE ${CMAKE_BINARY_DIR}/gen/empty.cc "")
function(psgd_precompile name header)
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/gen/empty.cc)
  target_precompile_headers(${name} PRIVATE <${header}>)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
  target_compile_options(${name} PRIVATE -pthread ${ARGN})
  target_link_libraries(${name} PRIVATE absl::statusor protobuf::libprotobuf)
  add_dependencies(${name} psgd_messages)
endfunction()
set(psgd_light $<$<CONFIG:Release>:-O1>)
psgd_precompile(psgd_room_headers common/precompiled.h)
psgd_precompile(psgd_light_room_headers common/precompiled.h ${psgd_light})

# Up to 16 sources are compiled as one. That halves the time of a build. Names in their anonymous
# namespaces must differ. A source stays alone if it has options of its own, or if ALONE names it:
# sources with names that every codec has, files that are compiled once per instruction set, and an Impl
# with a type of its file's anonymous namespace (GCC takes the included file for a header and warns).
# PSGD_SOURCES keeps the target's own list. A target with generated sources needs add_dependencies on
# what generates them. CMake's UNITY_BUILD writes absolute paths, so clones could not share objects.
function(psgd_compile_together name)
  cmake_parse_arguments(ARG "" "" "ALONE" ${ARGN})
  # Deferred, because options of a source are often set later.
  cmake_language(EVAL CODE "cmake_language(DEFER CALL psgd_replace_sources [[${name}]] [[${ARG_ALONE}]])")
endfunction()
function(psgd_replace_sources name alone)
  get_target_property(sources ${name} SOURCES)
  set(compiled)
  set(together)
  foreach(source ${sources})
    set(own FALSE)
    foreach(property COMPILE_DEFINITIONS COMPILE_OPTIONS OBJECT_DEPENDS)
      get_source_file_property(value ${source} ${property})
      if(value)
        set(own TRUE)
      endif()
    endforeach()
    if(own OR source IN_LIST alone OR NOT source MATCHES "\\.cc$")
      list(APPEND compiled ${source})
    else()
      list(APPEND together ${source})
    endif()
  endforeach()
  set(batch 0)
  while(together)
    list(SUBLIST together 0 16 taken)
    list(REMOVE_ITEM together ${taken})
    set(text)
    foreach(source ${taken})
      cmake_path(ABSOLUTE_PATH source NORMALIZE)
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
      string(APPEND text "#include \"${source}\"\n")
    endforeach()
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_${batch}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    list(APPEND compiled ${file})
    math(EXPR batch "${batch} + 1")
  endwhile()
  set_target_properties(${name} PROPERTIES SOURCES "${compiled}" PSGD_SOURCES "${sources}")
endfunction()

# psgd_room(NAME [LIGHT] SOURCES ... DEPS ... [ALONE ...]): the static library of one room. LIGHT: no
# training step waits for it. With fewer optimizations it compiles in three quarters of the time.
function(psgd_room name)
  cmake_parse_arguments(ARG "LIGHT" "" "SOURCES;DEPS;ALONE" ${ARGN})
  add_library(psgd_${name} STATIC ${ARG_SOURCES})
  psgd_compile_together(psgd_${name} ALONE ${ARG_ALONE})
  target_include_directories(psgd_${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
  target_link_libraries(psgd_${name} PUBLIC ${ARG_DEPS})
  target_compile_options(psgd_${name} PRIVATE -pthread)
  set(headers psgd_room_headers)
  if(ARG_LIGHT)
    set(headers psgd_light_room_headers)
    target_compile_options(psgd_${name} PRIVATE ${psgd_light})
  endif()
  target_precompile_headers(psgd_${name} REUSE_FROM ${headers})
endfunction()

# psgd_compile_as_room(NAME): for a program whose sources are optimized as a room's.
function(psgd_compile_as_room name)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
  # Needed for the precompiled header, as in tests below.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC -pthread)
  target_precompile_headers(${name} REUSE_FROM psgd_room_headers)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin)
endfunction()

# psgd_program(NAME SOURCES ... DEPS ...): an installed program, whose sources define its function of
# apps/program_mains.h. Its objects are the library NAME-objects, which the bundle's binary has too. They
# only connect code of the rooms, so they are not optimized, which halves the time.
set(psgd_unoptimized $<$<CONFIG:Release>:-O0>)
psgd_precompile(psgd_program_headers apps/precompiled.h ${psgd_unoptimized})
target_link_libraries(psgd_program_headers PRIVATE CLI11::CLI11 nlohmann_json::nlohmann_json)
function(psgd_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  string(REPLACE - _ function ${name}_main)
  add_library(${name}-objects OBJECT ${ARG_SOURCES})
  target_include_directories(${name}-objects PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
  target_link_libraries(${name}-objects PUBLIC ${ARG_DEPS})
  target_compile_options(${name}-objects PRIVATE -pthread ${psgd_unoptimized})
  target_precompile_headers(${name}-objects REUSE_FROM psgd_program_headers)
  psgd_compile_together(${name}-objects)
  add_executable(${name} ${CMAKE_SOURCE_DIR}/apps/program.cc)
  target_compile_definitions(${name} PRIVATE PSGD_MAIN=${function})
  target_link_libraries(${name} PRIVATE ${name}-objects)
  set_property(GLOBAL APPEND PROPERTY PSGD_PROGRAMS ${name})
endfunction()

# In release builds test code is not optimized, but the tested code is. Tests have no lines for a
# debugger there, which halves the time of their links and saves gigabytes; the debug build has them.
add_library(psgd_test_headers OBJECT ${CMAKE_BINARY_DIR}/gen/empty.cc)
target_precompile_headers(psgd_test_headers PRIVATE <tests/precompiled.h>)
function(psgd_compile_as_test name)
  cmake_parse_arguments(ARG "" "" "ALONE" ${ARGN})
  psgd_compile_together(${name} ALONE ${ARG_ALONE})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
  target_link_libraries(${name} PUBLIC GTest::gtest GTest::gmock absl::statusor Threads::Threads)
  # Tests need the same options, or the precompiled header does not fit.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE -pthread "$<$<CONFIG:Release>:-O0;-g0>")
  target_link_options(${name} PRIVATE $<$<CONFIG:Release>:-Wl,--strip-debug>)
endfunction()
psgd_compile_as_test(psgd_test_headers)
target_link_libraries(psgd_test_headers PUBLIC protobuf::libprotobuf)
add_dependencies(psgd_test_headers psgd_messages)

# psgd_test_library(NAME SOURCES ... DEPS ...): code shared by several tests.
function(psgd_test_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;ALONE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  psgd_compile_as_test(${name} ALONE ${ARG_ALONE})
  target_precompile_headers(${name} REUSE_FROM psgd_test_headers)
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
endfunction()

# psgd_test_program(NAME SOURCES ... DEPS ...): a GoogleTest binary, without an entry in ctest.
function(psgd_test_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;ALONE" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  psgd_compile_as_test(${name} ALONE ${ARG_ALONE})
  target_precompile_headers(${name} REUSE_FROM psgd_test_headers)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} psgd_test_folders GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin)
endfunction()

# psgd_add_test(NAME COMMAND ... [LABELS ...] [TIMEOUT seconds]): an entry in ctest.
function(psgd_add_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "COMMAND;LABELS" ${ARGN})
  add_test(NAME ${name} COMMAND ${ARG_COMMAND})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(PSGD_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 10")  # ThreadSanitizer makes some of them that slow
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  if(PSGD_SANITIZE)
    # In programs that dlopen a library with OpenMP threads, GCC 12's leak checker reads notes about
    # a thread's dynamic TLS after that TLS is gone, and crashes. gRPC and ZeroMQ are not built with
    # ThreadSanitizer, so data that they pass between threads would look like races.
    set_tests_properties(${name} PROPERTIES ENVIRONMENT
      "ASAN_OPTIONS=intercept_tls_get_addr=0;TSAN_OPTIONS=ignore_noninstrumented_modules=1 suppressions=${CMAKE_SOURCE_DIR}/tests/tsan_suppressions.txt;UCX_MEM_EVENTS=n")
  endif()
endfunction()

# psgd_test(NAME SOURCES ... DEPS ... [LABELS ...] [TIMEOUT seconds]): a GoogleTest binary, with one
# ctest entry per binary.
function(psgd_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS;ALONE" ${ARGN})
  psgd_test_program(${name} SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS} ALONE ${ARG_ALONE})
  psgd_add_test(${name} COMMAND ${name} LABELS ${ARG_LABELS} TIMEOUT "${ARG_TIMEOUT}")
endfunction()
