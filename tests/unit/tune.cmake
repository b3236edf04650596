bst_test(unit.split unit split_test.c LINKS bst_tune)
