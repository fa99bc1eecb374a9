# Installs the build in BUILD into a folder, then configures, builds and runs the consumer project against it.
set(prefix ${BUILD}/install_test/prefix)
set(consumer ${BUILD}/install_test/consumer)
file(REMOVE_RECURSE ${BUILD}/install_test)
foreach(command
    "${CMAKE_COMMAND};--install;${BUILD};--prefix;${prefix}"
    "${CMAKE_COMMAND};-G;Ninja;-S;${CMAKE_CURRENT_LIST_DIR};-B;${consumer};-DCMAKE_PREFIX_PATH=${prefix};-DEXAMPLES=${CMAKE_CURRENT_LIST_DIR}/../../examples;-DCMAKE_CXX_FLAGS=${CXX_FLAGS};-DCMAKE_C_FLAGS=${CXX_FLAGS}"
    "${CMAKE_COMMAND};--build;${consumer}"
    "${consumer}/use_c_api"
    "${consumer}/use_cpp"
    "${prefix}/bin/cinn_compile;-o;${consumer}/mlp.so;${CMAKE_CURRENT_LIST_DIR}/../../examples/mlp.graph"
    "${consumer}/load_library;${consumer}/mlp.so"
    "${consumer}/run_on_dpu")
  execute_process(COMMAND ${command} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
