/* Loss scaling by the rules of PyTorch's GradScaler, as numbers: whoever scales, on whatever
 * device, takes them from here. */
#ifndef BST_TUNE_LOSS_SCALE_H
#define BST_TUNE_LOSS_SCALE_H

#define BST_LOSS_SCALE_START 65536.0
#define BST_LOSS_SCALE_UP 2.0 /* after this many updates in a row that were used: */
#define BST_LOSS_SCALE_EVERY 2000
#define BST_LOSS_SCALE_DOWN 0.5 /* at once, the count starting anew */

#endif
