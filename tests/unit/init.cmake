bst_test(unit.init unit init_test.c train_support.c LINKS bst_train bst_nets bst_comm bst_data bst_backend
    bst_graph bst_tune bst_base PkgConfig::JANSSON m)
