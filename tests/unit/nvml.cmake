# A driver's library that answers as the test wants, for what reads NVIDIA's devices.
add_library(nvml_fake MODULE nvml_fake.c)
target_link_libraries(nvml_fake PRIVATE bst_flags)
bst_test(unit.nvml unit nvml_test.c ARGS $<TARGET_FILE:nvml_fake> LINKS bst_backend ${CMAKE_DL_LIBS})
bst_test(unit.doctor unit doctor_test.c ARGS $<TARGET_FILE:nvml_fake> LINKS bst_run bst_nets)
bst_test(unit.gpu unit gpu_test.c LINKS bst_run bst_nets)
bst_test(unit.monitor unit monitor_test.c ARGS $<TARGET_FILE:nvml_fake> LINKS bst_run)
