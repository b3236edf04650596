bst_test(unit.batch_search unit batch_search_test.c LINKS bst_tune)
bst_test(unit.lr_range unit lr_range_test.c LINKS bst_tune m)
find_package(PkgConfig REQUIRED)
pkg_check_modules(CAIRO REQUIRED IMPORTED_TARGET cairo)
bst_test(unit.plot unit plot_test.c LINKS bst_report PkgConfig::CAIRO m)
bst_test(unit.find unit find_test.c train_support.c LINKS bst_run bst_train bst_comm bst_data
    bst_backend bst_graph bst_tune bst_base m)
