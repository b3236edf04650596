add_executable(bench_jpeg jpeg.c)
target_link_libraries(bench_jpeg PRIVATE bst_flags bst_data)
set_target_properties(bench_jpeg PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
