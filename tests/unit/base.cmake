bst_test(unit.err unit err_test.c LINKS bst_base)
