bst_test(unit.safetensors unit safetensors_test.c LINKS bst_base)
bst_test(unit.comm unit comm_test.c LINKS bst_comm bst_base)

set(train_libs bst_train bst_comm bst_data bst_backend bst_graph bst_tune bst_base m)
bst_test(unit.train.update unit train_update_test.c train_support.c LINKS ${train_libs})
