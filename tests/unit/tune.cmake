bst_test(unit.schedule unit schedule_test.c LINKS bst_tune)
bst_test(unit.split unit split_test.c LINKS bst_tune)
