# Installed files: libraries, headers, locker.pc, the CMake package, manual pages, shell completion. The command
# is installed by tools/, what it runs by lab/.
include(CMakePackageConfigHelpers)

set(LOCKER_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/locker)

# What liblocker.a needs of others, as linker flags: by Requires.private, pkg-config --cflags would hand the others'
# compiler flags to everybody. liblocker.so brings them along.
set(LOCKER_PC_LIBS ${URIPARSER_STATIC_LDFLAGS} ${INIH_STATIC_LDFLAGS})
set(LOCKER_STATIC_REDIS FALSE)
set(LOCKER_STATIC_TLS FALSE)
if(LOCKER_REDIS)
    list(APPEND LOCKER_PC_LIBS ${HIREDIS_STATIC_LDFLAGS})
    set(LOCKER_STATIC_REDIS TRUE)
endif()
set(LOCKER_STATIC_ETCD FALSE)
if(LOCKER_ETCD)
    list(APPEND LOCKER_PC_LIBS ${NGHTTP2_STATIC_LDFLAGS} ${PROTOBUF_C_STATIC_LDFLAGS})
    set(LOCKER_STATIC_ETCD TRUE)
endif()
if(OPENSSL_FOUND)
    list(APPEND LOCKER_PC_LIBS ${OPENSSL_STATIC_LDFLAGS})
    set(LOCKER_STATIC_TLS TRUE)
endif()

set(LOCKER_STATIC_ZOOKEEPER FALSE)
if(LOCKER_ZOOKEEPER)
    list(POP_FRONT LOCKER_ZOOKEEPER_LIBRARIES LOCKER_ZOOKEEPER_TARGET)
    if(LOCKER_ZOOKEEPER_TARGET STREQUAL ZooKeeper::archive) # it has no .pc file
        get_filename_component(LOCKER_ZOOKEEPER_DIRECTORY ${ZooKeeper_ST_ARCHIVE} DIRECTORY)
        list(APPEND LOCKER_PC_LIBS ${LOCKER_ZOOKEEPER_OPTIONS} -L${LOCKER_ZOOKEEPER_DIRECTORY} -l:libzookeeper_st.a
            ${LOCKER_ZOOKEEPER_LIBRARIES})
    else()
        list(APPEND LOCKER_PC_LIBS -lzookeeper_st)
    endif()
    list(APPEND LOCKER_PC_LIBS -ldl)
    set(LOCKER_STATIC_ZOOKEEPER TRUE)
    install(FILES cmake/FindZooKeeper.cmake DESTINATION ${LOCKER_CMAKE_DIR})
endif()
list(APPEND LOCKER_PC_LIBS -pthread)
list(FILTER LOCKER_PC_LIBS EXCLUDE REGEX "^-L/usr/lib") # the linker looks there by itself
list(JOIN LOCKER_PC_LIBS " " LOCKER_PC_LIBS)

# Where the .pc files lie below the prefix, they find it from there, so that what is installed can be moved.
set(LOCKER_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    file(RELATIVE_PATH LOCKER_PC_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
    string(REGEX REPLACE "/$" "" LOCKER_PC_PREFIX "\${pcfiledir}/${LOCKER_PC_PREFIX}")
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

set(LOCKER_MAN_SECTIONS 7)
if(LOCKER_TOOLS)
    list(APPEND LOCKER_MAN_SECTIONS 1)
endif()
foreach(section IN LISTS LOCKER_MAN_SECTIONS)
    file(GLOB LOCKER_MAN CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.${section})
    if(NOT LOCKER_LAB)
        list(FILTER LOCKER_MAN EXCLUDE REGEX "/locker-(check-history|compare)[.]1$")
    endif()
    install(FILES ${LOCKER_MAN} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
if(TARGET locker_reference)
    install(DIRECTORY ${LOCKER_REFERENCE_DIR}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 FILES_MATCHING PATTERN "*.3")
endif()
if(LOCKER_TOOLS)
    install(FILES tools/completion/locker.bash RENAME locker
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions OPTIONAL)
    install(FILES tools/completion/_locker
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions OPTIONAL)
endif()
