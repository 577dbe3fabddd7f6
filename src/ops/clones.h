// PLIMSOLL_CLONES: what a CPU kernel is compiled for.
#pragma once

// One copy of each kernel for every instruction set worth having; the loader picks. Needs ifunc: GNU/Linux on x86-64.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PLIMSOLL_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define PLIMSOLL_CLONES
#endif
