bst_test(unit.noise unit noise_test.c LINKS bst_tune)
