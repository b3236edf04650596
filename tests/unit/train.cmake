bst_test(unit.safetensors unit safetensors_test.c LINKS bst_base)
bst_test(unit.comm unit comm_test.c LINKS bst_comm bst_base)
