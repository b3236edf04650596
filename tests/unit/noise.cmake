bst_test(unit.noise unit noise_test.c LINKS bst_tune)
bst_test(unit.train.noise unit train_noise_test.c train_support.c LINKS ${train_libs})
bst_test(unit.advisor unit advisor_test.c LINKS bst_tune)
