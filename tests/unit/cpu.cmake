bst_test(unit.cpu.vec unit cpu_vec_test.c LINKS bst_backend_cpu bst_base m)
bst_test(unit.cpu.net unit cpu_net_test.c ${CMAKE_SOURCE_DIR}/tests/bench/rig.c
    LINKS bst_backend bst_backend_cpu bst_nets Threads::Threads m)
bst_test(unit.cpu.vec_seq unit cpu_vec_seq_test.c LINKS bst_backend_cpu bst_base m)
