// What the interpreter keeps of memory and values.
#pragma once
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "ir/host_array.h"
#include "ir/scalar.h"

namespace cinn_like::ir {

// Who used a shared element since when: epochs count barriers.
struct Use {
  int writer = -1, reader = -1;  // -2: several threads
  int64_t write_epoch = -1, read_epoch = -1;
};
struct Memory {
  uint8_t* bytes = nullptr;
  uint8_t* written = nullptr;
  int64_t size = 0;
  std::vector<uint8_t> own_bytes, own_written;
  std::vector<Use> uses;  // shared memory: per byte

  explicit Memory(HostArray* a)
      : bytes(a->bytes.data()), written(a->written.data()), size(static_cast<int64_t>(a->bytes.size())) {}
  Memory(int64_t n, bool is_shared)
      : size(n), own_bytes(static_cast<size_t>(n), 0xcd), own_written(static_cast<size_t>(n), 0) {
    bytes = own_bytes.data();
    written = own_written.data();
    if (is_shared) uses.resize(static_cast<size_t>(n));
  }
};
struct View {
  std::shared_ptr<Memory> memory;
  int64_t offset = 0;  // bytes
  std::vector<int64_t> shape, strides;
};

struct Value {
  absl::InlinedVector<Lane, 1> lanes;
  std::shared_ptr<Memory> memory;  // an address; its byte offset is lanes[0].i
};
inline Value Scalar(int64_t i) { return {{{i, 0}}, nullptr}; }

}  // namespace cinn_like::ir
