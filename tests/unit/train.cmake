bst_test(unit.safetensors unit safetensors_test.c LINKS bst_base)
