bst_test(unit.keys unit keys_test.c LINKS bst_console)
bst_test(unit.layout unit layout_test.c LINKS bst_console)
bst_test(unit.chart unit chart_test.c LINKS bst_console)
bst_test(unit.frame unit frame_test.c LINKS bst_console)
