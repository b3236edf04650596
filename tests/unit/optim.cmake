bst_test(unit.optim unit optim_test.c LINKS bst_backend bst_backend_cpu bst_base m)
bst_test(unit.train.optim unit train_optim_test.c train_support.c LINKS bst_train bst_comm bst_data
    bst_backend bst_graph bst_tune bst_base m)
bst_test(unit.train.tokens unit train_tokens_test.c train_support.c LINKS bst_train bst_comm bst_data
    bst_backend bst_graph bst_tune bst_base m)
