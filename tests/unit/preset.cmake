bst_test(unit.nets unit nets_test.c LINKS bst_nets)
