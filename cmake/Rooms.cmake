# psgd_room(NAME SOURCES ... DEPS ...): the static library of one room.
function(psgd_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(psgd_${name} STATIC ${ARG_SOURCES})
  target_include_directories(psgd_${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
  target_link_libraries(psgd_${name} PUBLIC ${ARG_DEPS})
endfunction()

# psgd_program(NAME SOURCES ... DEPS ...): an installed program.
function(psgd_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  set_property(GLOBAL APPEND PROPERTY PSGD_PROGRAMS ${name})
endfunction()

# psgd_test(NAME SOURCES ... DEPS ... [LABELS ...] [TIMEOUT seconds]): a GoogleTest binary, one ctest
# entry a binary.
function(psgd_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  if(PSGD_SANITIZE)
    # GCC 12's leak checker reads what it noted of a thread's dynamic TLS after that is gone, and dies,
    # in programs that dlopen a library with OpenMP threads.
    # gRPC and ZeroMQ are not built with the thread sanitizer: what they hand from thread to thread
    # would look like races.
    set_tests_properties(${name} PROPERTIES ENVIRONMENT
      "ASAN_OPTIONS=intercept_tls_get_addr=0;TSAN_OPTIONS=ignore_noninstrumented_modules=1")
  endif()
endfunction()
