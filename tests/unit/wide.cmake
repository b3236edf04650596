# By mpirun, as three processes. Not under sanitizers: an MPI's own leaks and races are not ours to list.
if(BSTUNE_HAVE_MPI AND NOT BSTUNE_SANITIZE)
    add_executable(test_unit_wide wide_test.c)
    target_link_libraries(test_unit_wide PRIVATE bst_flags PkgConfig::CMOCKA bst_comm bst_base)
    set_target_properties(test_unit_wide PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME unit.wide COMMAND ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe --bind-to none -n 3
        $<TARGET_FILE:test_unit_wide>)
    set_tests_properties(unit.wide PROPERTIES LABELS unit SKIP_RETURN_CODE 77 TIMEOUT 300
        ENVIRONMENT "BSTUNE_MODULE_DIR=${CMAKE_BINARY_DIR};OMPI_MCA_btl_vader_single_copy_mechanism=none")
endif()
