# tests/<area>/<name>_test.cc is the program and the test <area>_<name>_test; it runs in the source folder, so golden files
# are opened by their path in the repository. Examples are run by the tests too.
cinn_find_libraries(gtest .a gtest_main gtest)
add_library(cinn_test_deps INTERFACE)
target_link_libraries(cinn_test_deps INTERFACE cinn_driver ${gtest})

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/*_test.cc)
list(FILTER test_sources EXCLUDE REGEX "^${CMAKE_SOURCE_DIR}/tests/install/")
foreach(source ${test_sources})
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR}/tests OUTPUT_VARIABLE name)
  string(REGEX REPLACE "\\.cc$" "" name ${name})
  string(REPLACE "/" "_" name ${name})
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE cinn_test_deps)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300)
endforeach()

cinn_executables(examples FOLDER examples DEPENDS cinn_driver)
foreach(example ${examples})
  add_test(NAME example_${example} COMMAND ${example} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endforeach()
