# Installed files: libraries, headers, locker.pc, the CMake package, manual pages, shell completion. The command
# is installed by tools/.
include(CMakePackageConfigHelpers)

set(LOCKER_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/locker)

# What liblocker.a needs of others, as pkg-config names; liblocker.so brings it along.
set(LOCKER_PC_REQUIRES "liburiparser inih")
set(LOCKER_STATIC_REDIS FALSE)
set(LOCKER_STATIC_REDIS_SSL FALSE)
if(LOCKER_REDIS)
    string(APPEND LOCKER_PC_REQUIRES " hiredis")
    set(LOCKER_STATIC_REDIS TRUE)
    if(HIREDIS_SSL_FOUND)
        string(APPEND LOCKER_PC_REQUIRES " hiredis_ssl")
        set(LOCKER_STATIC_REDIS_SSL TRUE)
    endif()
endif()

set(LOCKER_STATIC_ZOOKEEPER FALSE)
set(LOCKER_PC_LIBS "-pthread")
if(LOCKER_ZOOKEEPER)
    string(APPEND LOCKER_PC_LIBS " -lzookeeper_st -ldl") # it has no .pc file
    set(LOCKER_STATIC_ZOOKEEPER TRUE)
    install(FILES cmake/FindZooKeeper.cmake DESTINATION ${LOCKER_CMAKE_DIR})
endif()

# A directory of its own is taken as it is, one below the prefix moves with it.
foreach(dir LIBDIR INCLUDEDIR)
    if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
        set(LOCKER_PC_${dir} "${CMAKE_INSTALL_${dir}}")
    else()
        set(LOCKER_PC_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
    endif()
endforeach()

configure_file(cmake/locker.pc.in locker.pc @ONLY)
configure_file(cmake/locker-mock.pc.in locker-mock.pc @ONLY)
configure_package_config_file(cmake/lockerConfig.cmake.in lockerConfig.cmake
    INSTALL_DESTINATION ${LOCKER_CMAKE_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(lockerConfigVersion.cmake COMPATIBILITY SameMinorVersion)

# Three sets of targets: only who links statically needs the other libraries' development files, and only who tests the
# mock.
set_target_properties(locker_headers PROPERTIES EXPORT_NAME headers)
set_target_properties(locker_static PROPERTIES EXPORT_NAME static)
install(TARGETS locker locker_headers EXPORT lockerTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS locker_static EXPORT lockerStaticTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
set_target_properties(locker_mock PROPERTIES EXPORT_NAME mock)
install(TARGETS locker_mock EXPORT lockerMockTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT lockerMockTargets NAMESPACE locker:: DESTINATION ${LOCKER_CMAKE_DIR})
install(EXPORT lockerTargets NAMESPACE locker:: DESTINATION ${LOCKER_CMAKE_DIR})
install(EXPORT lockerStaticTargets NAMESPACE locker:: DESTINATION ${LOCKER_CMAKE_DIR})
install(FILES ${PROJECT_BINARY_DIR}/lockerConfig.cmake ${PROJECT_BINARY_DIR}/lockerConfigVersion.cmake
    DESTINATION ${LOCKER_CMAKE_DIR})
install(FILES ${PROJECT_BINARY_DIR}/locker.pc ${PROJECT_BINARY_DIR}/locker-mock.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY include/locker DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h" PATTERN conformance.h EXCLUDE)
install(FILES ${PROJECT_BINARY_DIR}/include/locker/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/locker)

# The conformance kit, for authors of drivers: a library, a header and a .pc file of its own.
if(TARGET locker_conformance)
    configure_file(cmake/locker-conformance.pc.in locker-conformance.pc @ONLY)
    install(TARGETS locker_conformance EXPORT lockerConformanceTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT lockerConformanceTargets NAMESPACE locker:: DESTINATION ${LOCKER_CMAKE_DIR})
    install(FILES ${PROJECT_BINARY_DIR}/locker-conformance.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    install(FILES include/locker/conformance.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/locker)
endif()

foreach(section 1 3 5 7)
    file(GLOB LOCKER_MAN CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.${section})
    install(FILES ${LOCKER_MAN} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
if(LOCKER_TOOLS)
    install(FILES tools/completion/locker.bash RENAME locker
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions OPTIONAL)
    install(FILES tools/completion/_locker
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions OPTIONAL)
endif()
