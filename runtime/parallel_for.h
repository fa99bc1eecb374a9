// The one parallel loop of generated host code.
//
//   cinn_parallel_for(0, n, grain, threads, body, ctx)  ->  body(b, e, ctx) over disjoint ranges that cover [0, n)
//
// It runs on the OpenMP runtime that the host process has loaded (runtime/openmp.h): a framework's threads and ours are
// then the same ones, and none waits for a core that the others hold. Where there is none, in a child after fork, or
// with --cinn_thread_pool=own: on a pool of our own, one per process. Inside of an OpenMP region it is serial.
//
// Each thread owns a contiguous part, which it walks in pieces of at least `grain` iterations (the last may be
// smaller), and then helps others: a part stays with its thread from loop to loop, and a late or slow thread holds
// nobody up. Less than two pieces and a call from inside a body are serial; on our own pool a call while another thread
// runs a loop is, too. Our own workers spin for about 50 us after a loop and then sleep; the caller works too, so a
// loop finishes even if no worker wakes. After fork the child starts a pool of its own. Bodies must not throw.
#pragma once
#include <cstdint>

// `threads`: at most so many, the caller's included; 0: NumThreads().
extern "C" void cinn_parallel_for(int64_t begin, int64_t end, int64_t grain, int64_t threads,
                                  void (*body)(int64_t begin, int64_t end, void* ctx), void* ctx);

namespace cinn_like {

// Threads of later loops that do not say, the caller's included; 0: as many as the process may use. At first:
// FLAGS_cinn_num_threads. Compiled functions say where their target or options do.
void SetNumThreads(int64_t threads);
int64_t NumThreads();
// Whether later loops run on our own pool even where the process has an OpenMP runtime. At first:
// FLAGS_cinn_thread_pool.
void UseOwnPool(bool own);

}  // namespace cinn_like
