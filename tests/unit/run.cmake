bst_test(unit.run_wire unit run_wire_test.c LINKS bst_run)
bst_test(unit.run_files unit run_files_test.c LINKS bst_run)
bst_test(unit.run_status unit run_status_test.c LINKS bst_run)
bst_test(unit.run_request unit request_test.c LINKS bst_run m)
