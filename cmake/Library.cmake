# The library: core and the drivers, as liblocker.so and liblocker.a.
get_property(LOCKER_PARTS GLOBAL PROPERTY LOCKER_PARTS)
get_property(LOCKER_PART_LIBRARIES GLOBAL PROPERTY LOCKER_PART_LIBRARIES)

function(locker_add_library target kind)
    add_library(${target} ${kind})
    foreach(part IN LISTS LOCKER_PARTS)
        target_sources(${target} PRIVATE $<TARGET_OBJECTS:${part}>)
    endforeach()
    target_link_libraries(${target}
        PUBLIC locker_headers
        PRIVATE Threads::Threads PkgConfig::URIPARSER PkgConfig::INIH ${LOCKER_PART_LIBRARIES})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME locker LINKER_LANGUAGE C)
endfunction()

locker_add_library(locker SHARED)
locker_add_library(locker_static STATIC)
set_target_properties(locker PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${LOCKER_SOVERSION})
target_link_options(locker PRIVATE
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/locker.map -Wl,--no-undefined-version)
set_property(TARGET locker APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/locker.map)
add_library(locker::locker ALIAS locker)
add_library(locker::static ALIAS locker_static)

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
