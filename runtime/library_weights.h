// Weights in the file of an exported library: what its function's `prepare` made of them, and those of them that the
// function reads itself, as pieces of one block of bytes (which its loader maps, so that processes share it). Equal
// pieces are there once. For another device than the host all lie there as they are, and are copied to the device and
// prepared there when the function is.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/dtype.h"
#include "cinn_like/base/status.h"

namespace cinn_like {

constexpr int64_t kWeightAlignment = 64;

struct WeightPiece {
  int64_t offset = 0, bytes = 0;  // in the block
};

// A parameter of the function, in order.
struct WeightedParam {
  enum class Kind : uint8_t {
    kGiven,   // by the caller
    kPacked,  // in slots alone
    kWeight,  // a tensor in the block
    kRaw,     // a tensor in the block, which `prepare` alone reads
  };
  Kind kind = Kind::kGiven;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape, strides;
  WeightPiece data;
};

struct LibraryWeights {
  int64_t bytes = 0;               // of the block
  std::vector<WeightPiece> slots;  // of `self`
  std::vector<WeightedParam> params;

  int NumGiven() const;  // of the parameters
  // A line for each.
  std::string Encode() const;
  // DataLoss where the text is none, or a piece is not in the block.
  static StatusOr<LibraryWeights> Decode(std::string_view text);
};

}  // namespace cinn_like
