bst_test(unit.data.sampler unit data_sampler_test.c LINKS bst_data)
bst_test(unit.data.loader unit data_loader_test.c LINKS bst_data)
