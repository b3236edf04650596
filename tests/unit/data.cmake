bst_test(unit.data.sampler unit data_sampler_test.c LINKS bst_data)
