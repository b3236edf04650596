/* Folders of checkpoints as the tests look at and copy them; every function fails the test on
 * error. */
#ifndef TRAIN_FOLDERS_H
#define TRAIN_FOLDERS_H

/* Entries with `like` in their names; 0 where there is no such folder. */
int folder_count(const char *dir, const char *like);
/* All but what is hidden, folders in it too, over what is there. */
void folder_copy(const char *from, const char *to);

#endif
