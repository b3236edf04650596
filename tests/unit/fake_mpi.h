/* An MPI whose processes are threads of one program, behind core/comm/mpi.h's table. A program that
 * links it with --wrap=bst_module_symbol has it in the place of comm_mpi.so.
 *
 * Short messages go without the other side's help; a long one, and a gather, keep the caller's
 * memory until the other side has come, as an MPI may. */
#ifndef FAKE_MPI_H
#define FAKE_MPI_H

#include <stddef.h>

enum { FAKE_MPI_MOST = 4, FAKE_MPI_SHORT = 4096 };

/* A world of n processes, from scratch; no thread is in the old one any more. */
void fake_mpi_world(int n);
/* The calling thread is about to open this process's end. */
void fake_mpi_here(int process);
/* The how manyeth abort this process's was; 0: it has not aborted. The thread goes on. */
int fake_mpi_aborted(int process);
/* As an MPI that is still at it: all memory that a process gave it to write to is written over.
 * Returns how many bytes that were. */
size_t fake_mpi_scribble(int process);

#endif
