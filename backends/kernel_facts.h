// What the emitter must know of a lowered function before it prints the first line.
#pragma once
#include <array>

#include "absl/container/flat_hash_set.h"
#include "ir/stmt.h"

namespace cinn_like::backends {

struct KernelFacts {
  absl::flat_hash_set<ir::Buffer> written;  // stored to, or their address is handed on
  // A buffer in global memory is written and read, and values are chosen: NVVM (CUDA 13.0) makes of `c ? in[i] :
  // out[j]`, of two restricted pointers, one load as of what nothing writes, which may be older than a store to `out`.
  bool may_read_late = false;
  // Read-only parameters with one load, whose index uses every loop around it: no element is read twice.
  absl::flat_hash_set<ir::Buffer> streamed;
  // Variables of loops that must be unrolled: with a constant extent, and indexing memory that has to be in registers.
  absl::flat_hash_set<ir::Expr> unrolled;
  bool can_fail = false, has_shuffles = false;
  std::array<ir::Expr, ir::kNumAxes> extents = {};  // of blockIdx.x .. clusterIdx.x; null: unbound

  bool has_shared = false;
  absl::flat_hash_set<ir::Buffer> own;  // shared memory of a cluster of which each block touches a part of its own
  // Blocks of a cluster; 1: there are none.
  int64_t Cluster() const { return extents.back() == nullptr ? 1 : extents.back()->int_value; }
  // The number of threads of a block; InvalidArgument if it is no constant.
  StatusOr<int64_t> Threads() const;
};

KernelFacts FindKernelFacts(const ir::Func& f);

}  // namespace cinn_like::backends
