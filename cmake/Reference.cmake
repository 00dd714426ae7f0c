# Manual pages of section 3, from the comments of the public headers. Without Python, the build has no such pages.
find_package(Python3 3.7 QUIET COMPONENTS Interpreter)
if(NOT Python3_Interpreter_FOUND)
    message(STATUS "Python 3.7 or later was not found: the manual pages of section 3 are left out")
    return()
endif()

set(LOCKER_REFERENCE ${PROJECT_SOURCE_DIR}/cmake/reference.py)
set(LOCKER_REFERENCE_DIR ${PROJECT_BINARY_DIR}/man3)
file(GLOB LOCKER_REFERENCE_HEADERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/locker/*.h)
list(APPEND LOCKER_REFERENCE_HEADERS ${PROJECT_BINARY_DIR}/include/locker/version.h)
if(NOT TARGET locker_conformance) # its header is not installed then
    list(FILTER LOCKER_REFERENCE_HEADERS EXCLUDE REGEX "/conformance[.]h$")
endif()

add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/man3.stamp
    COMMAND ${Python3_EXECUTABLE} -B ${LOCKER_REFERENCE} ${LOCKER_REFERENCE_DIR} ${PROJECT_VERSION} ${LOCKER_REFERENCE_HEADERS}
    COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/man3.stamp
    DEPENDS ${LOCKER_REFERENCE} ${LOCKER_REFERENCE_HEADERS}
    COMMENT "Writing the manual pages of section 3" VERBATIM)
add_custom_target(locker_reference ALL DEPENDS ${PROJECT_BINARY_DIR}/man3.stamp)
