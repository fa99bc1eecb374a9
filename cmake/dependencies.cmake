# The libraries that we are built on, as the imported targets cinn_like::base_deps and cinn_like::llvm. Used by our build
# and by the installed package. Without CINN_PORTABLE they are Debian's shared libraries.
include_guard(GLOBAL)
find_package(Threads REQUIRED)
find_path(CINN_DLPACK_INCLUDE dlpack/dlpack.h REQUIRED)
mark_as_advanced(CINN_DLPACK_INCLUDE)

function(cinn_archive out name)
  find_library(CINN_ARCHIVE_${name} lib${name}.a REQUIRED)
  mark_as_advanced(CINN_ARCHIVE_${name})
  set(${out} ${CINN_ARCHIVE_${name}} PARENT_SCOPE)
endfunction()

find_package(absl REQUIRED CONFIG)
find_package(gflags REQUIRED CONFIG COMPONENTS shared)
find_package(glog REQUIRED CONFIG)
add_library(cinn_like::base_deps INTERFACE IMPORTED GLOBAL)
target_include_directories(cinn_like::base_deps SYSTEM INTERFACE ${CINN_DLPACK_INCLUDE})
target_link_libraries(cinn_like::base_deps INTERFACE
  absl::status absl::statusor absl::strings absl::str_format absl::flat_hash_map absl::flat_hash_set absl::hash
  absl::inlined_vector absl::span absl::synchronization glog::glog gflags_shared Threads::Threads ${CMAKE_DL_LIBS})

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
