#include "core/tune/fault.h"

#include <stddef.h>

const struct bst_fault_rule *bst_fault_rule(enum bst_err err)
{
    static const struct bst_fault_rule rules[] = {
        {BST_E_NOMEM, BST_FAULT_RETRY, BST_DIAG_OUT_OF_MEMORY},
        {BST_E_LIBRARY, BST_FAULT_DROP, BST_DIAG_UPDATE_DROPPED},
        {BST_E_CONTEXT, BST_FAULT_RESTART, BST_DIAG_CONTEXT_LOST},
        {BST_E_DEVICE, BST_FAULT_STOP, BST_DIAG_DEVICE_LOST},
        {BST_E_PEER, BST_FAULT_STOP, BST_DIAG_PROCESS_LOST},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].err == err)
            return &rules[i];
    return NULL;
}
