# The library: core and the drivers, as liblocker.so and liblocker.a. Drivers that need a client library are modules of
# the shared one; in the static one, and without LOCKER_MODULES in both, they are built in.
get_property(LOCKER_PARTS GLOBAL PROPERTY LOCKER_PARTS)
get_property(LOCKER_CLIENT_DRIVERS GLOBAL PROPERTY LOCKER_CLIENT_DRIVERS)

function(locker_add_parts target)
    foreach(part IN LISTS ARGN)
        target_sources(${target} PRIVATE $<TARGET_OBJECTS:${part}>)
    endforeach()
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
endfunction()

# What several of them are made with is there once.
function(locker_add_client_drivers target)
    set(parts "")
    set(libraries "")
    foreach(driver IN LISTS ARGN)
        get_property(more GLOBAL PROPERTY LOCKER_PARTS_OF_${driver})
        list(APPEND parts ${more})
        get_property(more GLOBAL PROPERTY LOCKER_LIBRARIES_OF_${driver})
        list(APPEND libraries ${more})
    endforeach()
    list(REMOVE_DUPLICATES parts)
    list(REMOVE_DUPLICATES libraries)
    locker_add_parts(${target} ${parts})
    get_target_property(kind ${target} TYPE)
    if(kind STREQUAL STATIC_LIBRARY) # who links it links one copy of each, its program's too
        set(visible INTERFACE)
    else()
        locker_embedded(libraries ${libraries})
        set(visible PRIVATE)
    endif()
    target_link_libraries(${target} PRIVATE ${libraries})
    if(zookeeper IN_LIST ARGN)
        target_link_options(${target} ${visible} ${LOCKER_ZOOKEEPER_OPTIONS})
    endif()
endfunction()

function(locker_add_library target kind modules)
    add_library(${target} ${kind})
    locker_add_parts(${target} ${LOCKER_PARTS})
    target_link_libraries(${target}
        PUBLIC locker_headers
        PRIVATE Threads::Threads PkgConfig::URIPARSER PkgConfig::INIH)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME locker)
    if(modules)
        locker_add_parts(${target} locker_core_modules locker_builtin_loading)
        target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
        return()
    endif()
    locker_add_parts(${target} locker_builtin_all)
    locker_add_client_drivers(${target} ${LOCKER_CLIENT_DRIVERS})
endfunction()

locker_add_library(locker SHARED ${LOCKER_MODULES})
locker_add_library(locker_static STATIC OFF)
set_target_properties(locker PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${LOCKER_SOVERSION})
target_link_options(locker PRIVATE
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/locker.map -Wl,--no-undefined-version)
set_property(TARGET locker APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/locker.map)
add_library(locker::locker ALIAS locker)
add_library(locker::static ALIAS locker_static)

# A module, and the text beside it. It needs the library that loads it by its name, so that the drivers of a library
# which a program has loaded for itself alone find it too.
function(locker_add_module driver)
    set(target locker_module_${driver})
    set(folder $<TARGET_FILE_DIR:locker>/${LOCKER_MODULE_SUBDIRECTORY})
    set(map ${PROJECT_SOURCE_DIR}/cmake/locker-module.map)
    add_library(${target} MODULE ${PROJECT_SOURCE_DIR}/backends/module.c)
    locker_add_client_drivers(${target} ${driver})
    target_compile_definitions(${target} PRIVATE LOCKER_MODULE_DRIVER=lk_${driver}_driver)
    target_link_libraries(${target} PRIVATE locker locker_flags Threads::Threads)
    target_link_options(${target} PRIVATE -Wl,--version-script=${map})
    set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${driver} LIBRARY_OUTPUT_DIRECTORY ${folder})
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map} $<TARGET_FILE:locker-describe>)
    add_dependencies(${target} locker-describe)
    add_custom_command(TARGET ${target} POST_BUILD VERBATIM
        COMMAND locker-describe $<TARGET_FILE:locker> $<TARGET_FILE:${target}> ${folder}/${driver}.driver)
    add_dependencies(locker_modules ${target})
    install(TARGETS ${target} LIBRARY DESTINATION ${LOCKER_MODULE_DIR} COMPONENT locker-${driver})
    install(FILES ${folder}/${driver}.driver DESTINATION ${LOCKER_MODULE_DIR} COMPONENT locker-${driver})
endfunction()

add_custom_target(locker_modules) # what has to be built beside liblocker.so to run it
if(LOCKER_MODULES)
    foreach(driver IN LISTS LOCKER_CLIENT_DRIVERS)
        locker_add_module(${driver})
    endforeach()
endif()

# What programs of ours link: the library as it is installed, with its modules, else the static one.
add_library(locker_product INTERFACE)
target_link_libraries(locker_product INTERFACE $<IF:$<BOOL:${LOCKER_MODULES}>,locker,locker_static>)
add_dependencies(locker_product locker_modules)

# A program that is installed in this directory finds the library from where it lies, so that what is installed can be
# moved.
function(locker_find_library_from target directory)
    if(NOT LOCKER_MODULES) # it carries the library
        return()
    endif()
    set(rpath "${CMAKE_INSTALL_FULL_LIBDIR}")
    if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" AND NOT IS_ABSOLUTE "${directory}")
        file(RELATIVE_PATH rpath "/prefix/${directory}" "/prefix/${CMAKE_INSTALL_LIBDIR}")
        string(PREPEND rpath "$ORIGIN/")
    endif()
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "${rpath}")
endfunction()

# The mock, for unit tests: a library beside, which needs this one. The static one is for our own tests.
function(locker_add_mock target kind core)
    add_library(${target} ${kind} $<TARGET_OBJECTS:locker_mock_parts> $<TARGET_OBJECTS:locker_fault_script>)
    target_link_libraries(${target} PUBLIC ${core} PRIVATE Threads::Threads)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME locker-mock LINKER_LANGUAGE C)
endfunction()

locker_add_mock(locker_mock SHARED locker)
locker_add_mock(locker_mock_static STATIC locker_static)
set_target_properties(locker_mock PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${LOCKER_SOVERSION})
target_link_options(locker_mock PRIVATE
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/locker-mock.map -Wl,--no-undefined-version)
set_property(TARGET locker_mock APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/locker-mock.map)
add_library(locker::mock ALIAS locker_mock)
