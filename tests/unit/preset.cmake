bst_test(unit.nets unit nets_test.c LINKS bst_nets)
bst_test(unit.preset unit preset_test.c LINKS bst_run)
bst_test(unit.preset_bad unit preset_bad_test.c LINKS bst_run)
bst_test(unit.cli unit cli_test.c ${CMAKE_SOURCE_DIR}/tui/cli.c LINKS bst_base)
