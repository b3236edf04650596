# bst_test(NAME LABEL FILE... LINKS LIB...): one cmocka program, registered as the ctest NAME.
# Exit 77 is a skip, with the reason printed.
find_package(PkgConfig REQUIRED)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

# A test's many children need not wait a second each as they end.
set(BST_TSAN_OPTIONS "suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp:atexit_sleep_ms=0")
set(BST_LSAN_OPTIONS "print_suppressions=0:suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp")

function(bst_test name label)
    cmake_parse_arguments(PARSE_ARGV 2 T "" "" "LINKS;ARGS")
    string(REPLACE "." "_" target "test_${name}")
    add_executable(${target} ${T_UNPARSED_ARGUMENTS})
    target_link_libraries(${target} PRIVATE bst_flags PkgConfig::CMOCKA ${T_LINKS})
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${name} COMMAND ${target} ${T_ARGS} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES LABELS ${label} SKIP_RETURN_CODE 77 TIMEOUT 300
        ENVIRONMENT "TSAN_OPTIONS=${BST_TSAN_OPTIONS};LSAN_OPTIONS=${BST_LSAN_OPTIONS}")
endfunction()
