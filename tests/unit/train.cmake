bst_test(unit.safetensors unit safetensors_test.c LINKS bst_base)
bst_test(unit.comm unit comm_test.c LINKS bst_comm bst_base)
# Processes as threads of one program, over a fake MPI in the module's place.
bst_test(unit.comm.cluster unit cluster_test.c fake_mpi.c LINKS bst_comm bst_base)
target_link_options(test_unit_comm_cluster PRIVATE -Wl,--wrap=bst_module_symbol)
bst_test(unit.comm.lifeline unit lifeline_test.c LINKS bst_comm bst_base)
foreach(call getifaddrs freeifaddrs connect)
    target_link_options(test_unit_comm_lifeline PRIVATE -Wl,--wrap=${call})
endforeach()

set(train_libs bst_train bst_comm bst_data bst_backend bst_graph bst_tune bst_base m)
bst_test(unit.train.update unit train_update_test.c train_support.c LINKS ${train_libs})
bst_test(unit.train.state unit train_state_test.c train_support.c LINKS ${train_libs})
bst_test(unit.train.memory unit train_memory_test.c train_support.c LINKS ${train_libs})
bst_test(unit.train.checkpoint unit train_checkpoint_test.c train_support.c train_folders.c train_iofault.c
    LINKS ${train_libs})
bst_test(unit.train.crash unit train_crash_test.c train_support.c train_folders.c train_iofault.c
    LINKS ${train_libs})
foreach(test checkpoint crash)
    foreach(call open mkdir write fsync close rename unlinkat)
        target_link_options(test_unit_train_${test} PRIVATE -Wl,--wrap=${call})
    endforeach()
endforeach()
