# The libraries that we are built on, as the imported targets cinn_like::base_deps, cinn_like::llvm and cinn_like::gtest.
# Used by our build and by the installed package. Everything but LLVM is always linked statically: a process that loads
# us may hold a gflags or glog of its own.
include_guard(GLOBAL)
find_package(Threads REQUIRED)

function(cinn_archive out name)
  find_library(CINN_ARCHIVE_${name} lib${name}.a REQUIRED)
  set(${out} ${CINN_ARCHIVE_${name}} PARENT_SCOPE)
endfunction()

find_path(CINN_ABSL_INCLUDE absl/status/statusor.h REQUIRED)
find_path(CINN_DLPACK_INCLUDE dlpack/dlpack.h REQUIRED)
mark_as_advanced(CINN_ABSL_INCLUDE CINN_DLPACK_INCLUDE)
cinn_archive(absl_status absl_status)
cmake_path(GET absl_status PARENT_PATH absl_folder)
file(GLOB absl_archives ${absl_folder}/libabsl_*.a)
cinn_archive(glog glog)
cinn_archive(gflags gflags)
cinn_archive(unwind unwind)
cinn_archive(lzma lzma)

# The compiler's own unwinder comes first: libunwind defines the same names and serves glog's stack traces only.
add_library(cinn_like::base_deps INTERFACE IMPORTED GLOBAL)
target_include_directories(cinn_like::base_deps SYSTEM INTERFACE ${CINN_ABSL_INCLUDE} ${CINN_DLPACK_INCLUDE})
target_link_libraries(cinn_like::base_deps INTERFACE
  -Wl,--start-group ${absl_archives} -Wl,--end-group ${glog} ${gflags} -lgcc_eh ${unwind} ${lzma}
  Threads::Threads ${CMAKE_DL_LIBS})

find_program(CINN_LLVM_CONFIG NAMES llvm-config-19 REQUIRED)
function(cinn_llvm_config out)
  execute_process(COMMAND ${CINN_LLVM_CONFIG} ${ARGN} OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(text UNIX_COMMAND "${text}")
  set(${out} ${text} PARENT_SCOPE)
endfunction()
cinn_llvm_config(llvm_include --includedir)
add_library(cinn_like::llvm INTERFACE IMPORTED GLOBAL)
target_include_directories(cinn_like::llvm SYSTEM INTERFACE ${llvm_include})
if(CINN_PORTABLE)
  # No PassBuilder ("passes"): it alone would add a third to the size. z3 and libxml2 serve parts that we don't link.
  cinn_llvm_config(llvm_archives --link-static --libfiles orcjit native scalaropts instcombine)
  cinn_archive(z z)
  cinn_archive(zstd zstd)
  target_link_libraries(cinn_like::llvm INTERFACE ${llvm_archives} ${z} ${zstd} -lrt -lm ${CMAKE_DL_LIBS} Threads::Threads)
else()
  cinn_llvm_config(llvm_shared --link-shared --libfiles)
  target_link_libraries(cinn_like::llvm INTERFACE ${llvm_shared})
endif()
