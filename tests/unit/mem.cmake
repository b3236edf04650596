bst_test(unit.memory_law unit memory_law_test.c LINKS bst_tune)
bst_test(unit.mem unit mem_test.c LINKS bst_run bst_nets)
