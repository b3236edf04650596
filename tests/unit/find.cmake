bst_test(unit.batch_search unit batch_search_test.c LINKS bst_tune)
bst_test(unit.lr_range unit lr_range_test.c LINKS bst_tune m)
