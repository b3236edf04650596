bst_test(unit.err unit err_test.c LINKS bst_base)
bst_test(unit.base unit base_test.c LINKS bst_base)
bst_test(unit.text unit text_test.c LINKS bst_base)
bst_test(unit.io unit io_test.c LINKS bst_base)
