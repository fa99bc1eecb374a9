# The libraries that we are built on, as the imported targets cinn_like::base_deps and cinn_like::llvm; used by our build
# and by the installed package. Headers are Debian's in every build, so objects don't depend on CINN_PORTABLE; the option
# decides only whether shared libraries or archives are linked.
include_guard(GLOBAL)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_path(CINN_DLPACK_INCLUDE dlpack/dlpack.h REQUIRED)
mark_as_advanced(CINN_DLPACK_INCLUDE)

function(cinn_find_libraries out suffix)
  set(found)
  foreach(name ${ARGN})
    find_library(CINN_LIB_${name}${suffix} lib${name}${suffix} HINTS ${CMAKE_SOURCE_DIR}/build/deps/lib REQUIRED)
    mark_as_advanced(CINN_LIB_${name}${suffix})
    list(APPEND found ${CINN_LIB_${name}${suffix}})
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

find_program(CINN_LLVM_CONFIG NAMES llvm-config-19 REQUIRED)
function(cinn_llvm_config out)
  execute_process(COMMAND ${CINN_LLVM_CONFIG} ${ARGN} OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(text UNIX_COMMAND "${text}")
  set(${out} ${text} PARENT_SCOPE)
endfunction()
cinn_llvm_config(llvm_include --includedir)

if(CINN_PORTABLE)
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/tools/portable_deps.sh COMMAND_ERROR_IS_FATAL ANY)
  set(suffix .a)
  # No PassBuilder ("passes"): it alone would add a third to the size. z3 and libxml2 serve parts that we don't link.
  cinn_llvm_config(llvm_libraries --link-static --libfiles orcjit native objcopy scalaropts perfjitevents)
  cinn_find_libraries(compression .a z zstd)
  list(APPEND llvm_libraries ${compression} -lrt -lm)
else()
  set(suffix .so)
  cinn_llvm_config(llvm_libraries --link-shared --libfiles)
endif()

# Of Abseil's many small libraries the linker takes what is used.
cinn_find_libraries(absl_status ${suffix} absl_status)
cmake_path(GET absl_status PARENT_PATH absl_folder)
file(GLOB absl_libraries ${absl_folder}/libabsl_*${suffix})
cinn_find_libraries(glog_libraries ${suffix} glog gflags)

add_library(cinn_like::base_deps INTERFACE IMPORTED GLOBAL)
target_include_directories(cinn_like::base_deps SYSTEM INTERFACE ${CINN_DLPACK_INCLUDE})
target_link_libraries(cinn_like::base_deps INTERFACE
  -Wl,--start-group ${absl_libraries} -Wl,--end-group ${glog_libraries} Threads::Threads ${CMAKE_DL_LIBS})
add_library(cinn_like::llvm INTERFACE IMPORTED GLOBAL)
target_include_directories(cinn_like::llvm SYSTEM INTERFACE ${llvm_include})
target_link_libraries(cinn_like::llvm INTERFACE ${llvm_libraries} Threads::Threads ${CMAKE_DL_LIBS})
