# tests/fuzz/<name>_fuzzer.cc is the program <name>_fuzzer of libFuzzer; `fuzzers` builds all. No LLVM is in them.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*_fuzzer.cc)
add_custom_target(fuzzers)
foreach(source ${sources})
  cmake_path(GET source STEM name)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE cinn_hlir cinn_runtime -fsanitize=fuzzer)
  add_dependencies(fuzzers ${name})
endforeach()
