/* What the fakes' own tests share. */
#ifndef FAKE_TESTS_SUPPORT_H
#define FAKE_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fakes/fake.h"

/* Eager, quiet, 64 MiB a device, guarded; whatever BST_FAKE_* says. */
struct fake_settings test_settings(int devices);
/* A fresh machine with these, or with those settings. */
void test_machine(int devices, uint64_t seed);
/* Nothing is left alive and nothing was complained of. */
void test_all_gone(void);

#define ok(call) assert_int_equal((call), 0)

struct dev { /* one device's usual set */
    cudaStream_t a, b;
    cudaEvent_t e, f;
};
void dev_init(struct dev *d);
void dev_fini(struct dev *d);

enum test_type {
    TEST_F32,
    TEST_F16,
    TEST_BF16,
};
size_t test_bytes(enum test_type t);
/* Uniform in (-1, 1), rounded to the type: a function of seed and place. */
void test_fill(float *v, size_t n, uint64_t seed, enum test_type t);
float test_round(float v, enum test_type t);
/* A new device block that holds v (NULL: untouched); synchronous. */
void *test_up(const float *v, size_t n, enum test_type t);
void test_down(float *v, const void *p, size_t n, enum test_type t);
/* |got - want| ≤ tolerance · (|want| + floor) everywhere. */
void test_near(const float *got, const double *want, size_t n, double tolerance, double floor);

/* Kernels for tests: y[i] = a·x[i] + b, and y[i] = -1 for all i. */
cudaError_t test_axpb(cudaStream_t s, float *y, const float *x, size_t n, float a, float b);

/* Whether the function dies of what it does, in a child process. */
int test_dies(void (*fn)(void *), void *arg);

#endif
