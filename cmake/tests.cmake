# tests/<area>/<name>_test.cc is the program and the test <area>_<name>_test; it runs in the source folder, so golden files
# are opened by their path in the repository. Tests whose name says `thread` or `parallel` carry the label `threads` and are
# built by the target of that name: ThreadSanitizer runs these. Examples are run too.
cinn_find_libraries(gtest .a gtest_main gtest)
add_library(cinn_test_deps INTERFACE)
# A device from outside, which a test holds too.
cinn_library(dpu FOLDER examples/dpu DEPENDS cinn_driver)
target_link_libraries(cinn_test_deps INTERFACE cinn_dpu cinn_driver ${gtest} cinn_library_runtime)
add_custom_target(threads)
set(long_tests driver_cuda_lowering_test hlir_tactics_test)

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/*_test.cc)
foreach(source ${test_sources})
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR}/tests OUTPUT_VARIABLE name)
  string(REGEX REPLACE "\\.cc$" "" name ${name})
  string(REPLACE "/" "_" name ${name})
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE cinn_test_deps)
  # Longer ones are eight tests, which run side by side.
  set(shards 1)
  if(name IN_LIST long_tests)
    set(shards 8)
  endif()
  file(STRINGS ${source} starts_threads REGEX "^#include <thread>")
  foreach(shard RANGE 1 ${shards})
    set(test ${name})
    if(shards GREATER 1)
      set(test ${name}_${shard})
    endif()
    math(EXPR index "${shard} - 1")
    add_test(NAME ${test} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${test} PROPERTIES TIMEOUT 300
                         ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${index}")
    if(starts_threads)
      set_tests_properties(${test} PROPERTIES LABELS threads)
    endif()
  endforeach()
  if(starts_threads)
    add_dependencies(threads ${name})
  endif()
endforeach()

# An exported library finds a device of the program's by its symbol.
target_link_options(driver_library_device_test PRIVATE -Wl,--export-dynamic-symbol=cinn_device_dpu)

cinn_executables(examples FOLDER examples DEPENDS cinn_dpu cinn_driver cinn_library_runtime)
foreach(example ${examples})
  add_test(NAME example_${example} COMMAND ${example} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endforeach()
# A graph as C99, and a program of C that calls it.
set(folder ${CMAKE_BINARY_DIR}/examples)
file(MAKE_DIRECTORY ${folder})
add_custom_command(OUTPUT ${folder}/mlp.c DEPENDS ${CMAKE_SOURCE_DIR}/examples/mlp.graph cinn_compile
                   COMMAND cinn_compile --target=c -o ${folder}/mlp.c ${CMAKE_SOURCE_DIR}/examples/mlp.graph)
add_executable(call_c examples/call_c.c ${folder}/mlp.c)
set_target_properties(call_c PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
target_compile_options(call_c PRIVATE -pedantic)
target_include_directories(call_c PRIVATE ${folder})
target_link_libraries(call_c PRIVATE m)
add_test(NAME example_call_c COMMAND call_c)
# A graph as a shared library, and a program of C that loads it.
add_custom_command(OUTPUT ${folder}/mlp.so DEPENDS ${CMAKE_SOURCE_DIR}/examples/mlp.graph cinn_compile
                   COMMAND cinn_compile -o ${folder}/mlp.so ${CMAKE_SOURCE_DIR}/examples/mlp.graph)
add_executable(load_library examples/load_library.c ${folder}/mlp.so)
set_target_properties(load_library PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
target_include_directories(load_library SYSTEM PRIVATE ${CINN_DLPACK_INCLUDE})
target_link_libraries(load_library PRIVATE cinn_library_runtime m)
add_test(NAME example_load_library COMMAND load_library ${folder}/mlp.so)
find_library(CINN_BENCHMARK benchmark)
if(CINN_BENCHMARK)
  cinn_executables(benchmarks FOLDER benchmarks DEPENDS cinn_driver ${CINN_BENCHMARK})
endif()

find_program(CINN_PYTHON python3 REQUIRED)
add_test(NAME check_includes COMMAND ${CINN_PYTHON} tools/check_includes.py WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
if(TARGET cinn_like)
  add_test(NAME install_consumer COMMAND ${CMAKE_COMMAND} -DBUILD=${CMAKE_BINARY_DIR}
           -DCXX_FLAGS=${CMAKE_CXX_FLAGS} -P ${CMAKE_SOURCE_DIR}/tests/install/run.cmake)
endif()
