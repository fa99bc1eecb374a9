// The one parallel loop of generated host code, on one pool per process.
//
//   cinn_parallel_for(0, n, grain, body, ctx)  ->  body(b, e, ctx) over disjoint ranges that cover [0, n)
//
// Each thread owns a contiguous part, which it walks in pieces of at least `grain` iterations (the last may be
// smaller), and then helps others: a part stays with its thread from loop to loop, and a late or slow thread holds
// nobody up. Less than two pieces, a call from inside a body, and a call while another thread runs a loop are serial.
// Workers spin for about 50 us after a loop and then sleep, so that they stay out of the way of the framework's own
// pool; the caller works too, so a loop finishes even if no worker wakes. After fork the child starts a pool of its
// own. Bodies must not throw.
#pragma once
#include <cstdint>

extern "C" void cinn_parallel_for(int64_t begin, int64_t end, int64_t grain,
                                  void (*body)(int64_t begin, int64_t end, void* ctx), void* ctx);

namespace cinn_like {

// Threads of later loops, the caller's included; 0: as many as the process may use. Also the pool's start value:
// FLAGS_cinn_num_threads.
void SetNumThreads(int64_t threads);
int64_t NumThreads();

}  // namespace cinn_like
