# include/cinn_like is the root of our include paths ("cinn_like/c_api.h", "ir/expr.h"); find_package(cinn_like) gives
# cinn_like::cinn_like (the C API, one shared library) and, outside the portable build, the C++ libraries, of which
# cinn_like::driver brings all.
set(include_root ${CMAKE_INSTALL_INCLUDEDIR}/cinn_like)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/cinn_like)
install(FILES ${CINN_DLPACK_INCLUDE}/dlpack/dlpack.h DESTINATION ${include_root}/dlpack)

set(installed cinn_library_runtime)
if(TARGET cinn_like)
  list(APPEND installed cinn_like)
endif()
if(CINN_PORTABLE)
  install(FILES cinn_like/c_api.h DESTINATION ${include_root}/cinn_like)
  install(FILES runtime/call.h runtime/global_functions.h runtime/library.h DESTINATION ${include_root}/runtime)
else()
  foreach(folder cinn_like runtime ir backends hlir frontend)
    if(EXISTS ${CMAKE_SOURCE_DIR}/${folder})
      install(DIRECTORY ${folder} DESTINATION ${include_root} FILES_MATCHING PATTERN "*.h" PATTERN "*.def"
              PATTERN frontend/torch EXCLUDE)
    endif()
  endforeach()
  foreach(name base runtime ir backends hlir frontend driver)
    set_target_properties(cinn_${name} PROPERTIES EXPORT_NAME ${name})
    list(APPEND installed cinn_${name})
  endforeach()
  install(FILES cmake/dependencies.cmake DESTINATION ${package_folder})
endif()
install(TARGETS ${installed} ${tools} EXPORT cinn_like_targets)
install(EXPORT cinn_like_targets NAMESPACE cinn_like:: DESTINATION ${package_folder})

include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/cinn_likeConfig.cmake.in ${CMAKE_BINARY_DIR}/cinn_likeConfig.cmake
                              INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cinn_likeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cinn_likeConfig.cmake ${CMAKE_BINARY_DIR}/cinn_likeConfigVersion.cmake
        DESTINATION ${package_folder})
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
