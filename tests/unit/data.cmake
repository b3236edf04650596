find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)

bst_test(unit.data.sampler unit data_sampler_test.c LINKS bst_data)
bst_test(unit.data.loader unit data_loader_test.c LINKS bst_data)
bst_test(unit.data.idx unit data_idx_test.c data_files.c LINKS bst_data ZLIB::ZLIB)
bst_test(unit.data.sets unit data_sets_test.c data_files.c LINKS bst_data ZLIB::ZLIB)
bst_test(unit.data.jpeg unit data_jpeg_test.c data_encode.c LINKS bst_data JPEG::JPEG m)
bst_test(unit.data.resample unit data_resample_test.c LINKS bst_data m)
bst_test(unit.data.folder unit data_folder_test.c data_files.c data_encode.c
    LINKS bst_data ZLIB::ZLIB JPEG::JPEG m)
bst_test(unit.data.tokens unit data_tokens_test.c data_sequences.c data_files.c LINKS bst_data ZLIB::ZLIB)
bst_test(unit.data.tasks unit data_tasks_test.c data_sequences.c data_files.c LINKS bst_data ZLIB::ZLIB)
bst_test(unit.data.refused unit data_refused_test.c data_files.c LINKS bst_data ZLIB::ZLIB)
