// What the interpreter keeps of memory and values.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "ir/host_array.h"
#include "ir/scalar.h"

namespace cinn_like::ir {

// A launch and where in it a block is.
struct Grid {
  std::array<int64_t, 3> grid{1, 1, 1}, block_index{};
  std::array<int64_t, 4> block{1, 1, 1, 1};  // threads along x, y and z, blocks of a cluster
};
// Counts from the start of the program: kernels started, blocks started, and barriers (each block starts with one).
struct Clock {
  int launch = 0, block = 0, epoch = 0;
  int64_t steps_left = 0;
};
// Who used an element last. Blocks of a launch run at once, as do threads until a barrier.
struct Accessors {
  static constexpr int kSeveral = -2;
  int launch = -1, block = -1, epoch = -1, thread = -1;

  bool Conflicts(const Clock& now, int t) const {
    return launch == now.launch && (block != now.block || (epoch == now.epoch && thread != t));
  }
  void Add(const Clock& now, int t) {
    const bool several = Conflicts(now, t);
    const bool several_blocks = several && block != now.block;
    *this = {now.launch, several_blocks ? kSeveral : now.block, now.epoch, several ? kSeveral : t};
  }
};
struct Use {
  Accessors writer, reader;
};
struct Memory {
  uint8_t* bytes = nullptr;
  uint8_t* written = nullptr;
  int64_t size = 0;
  std::vector<uint8_t> own_bytes, own_written;
  std::vector<Use> uses;  // by device threads, per byte

  explicit Memory(HostArray* a)
      : bytes(a->bytes.data()), written(a->written.data()), size(static_cast<int64_t>(a->bytes.size())) {}
  explicit Memory(int64_t n)
      : size(n), own_bytes(static_cast<size_t>(n), 0xcd), own_written(static_cast<size_t>(n), 0) {
    bytes = own_bytes.data();
    written = own_written.data();
  }
  Use& UseOf(int64_t at) {
    if (uses.empty()) uses.resize(static_cast<size_t>(size));
    return uses[static_cast<size_t>(at)];
  }
};
struct View {
  std::shared_ptr<Memory> memory;
  int64_t offset = 0;         // bytes
  int64_t thread_stride = 0;  // bytes; 0: one memory for all threads
  std::vector<int64_t> shape, strides;
};

// What an expression is for the threads of a block.
struct Value {
  int width = 1;        // lanes of one thread; one lane stands for any number
  bool varies = false;  // between threads: then `lanes` holds width lanes for each
  absl::InlinedVector<Lane, 1> lanes;
  std::shared_ptr<Memory> memory;  // an address; its byte offset is lanes[0].i

  const Lane* At(int thread) const { return lanes.data() + (varies ? thread * width : 0); }
  const Lane& At(int thread, int lane) const { return At(thread)[width == 1 ? 0 : lane]; }
};
inline Value Scalar(int64_t i, double f = 0) { return {1, false, {{i, f}}, nullptr}; }

}  // namespace cinn_like::ir
