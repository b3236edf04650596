find_package(ZLIB REQUIRED)

bst_test(unit.data.sampler unit data_sampler_test.c LINKS bst_data)
bst_test(unit.data.loader unit data_loader_test.c LINKS bst_data)
bst_test(unit.data.idx unit data_idx_test.c data_files.c LINKS bst_data ZLIB::ZLIB)
bst_test(unit.data.sets unit data_sets_test.c data_files.c LINKS bst_data ZLIB::ZLIB)
