bst_test(unit.graph unit graph_test.c LINKS bst_graph)
bst_test(unit.compile unit compile_test.c LINKS bst_backend bst_nets m)
