// What one compiled function expects of its arguments: made at compile time, encoded into one position-independent
// byte string that lies in the generated code (or in an artifact), and read by cinn_bind_args at each call.
//
//   mlp(x: f32[n,256], w: f32[256,512] static, b: f32[512]) where n in 1..4096  ->  f32[n,512]
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/dtype.h"
#include "cinn_like/base/status.h"

namespace cinn_like {

constexpr int kMaxRank = 32;

// A dimension or stride: a postfix program over constants and symbols; one step for the plain cases.
enum class DimOp : uint8_t { kConst, kSymbol, kAdd, kSub, kMul, kFloorDiv, kFloorMod };
struct DimStep {
  DimOp op = DimOp::kConst;
  int64_t value = 0;  // the constant, or the index of the symbol
  bool operator==(const DimStep&) const = default;
};
using Dim = std::vector<DimStep>;
inline Dim ConstDim(int64_t value) { return {{DimOp::kConst, value}}; }
inline Dim SymbolDim(int index) { return {{DimOp::kSymbol, index}}; }

struct SymbolSpec {
  std::string name;
  int64_t min = 0, max = INT64_MAX, divisor = 1;
};

enum class ArgRole : uint8_t {
  kInput,   // a tensor to read
  kPacked,  // a static parameter whose packed form lies in `self`: takes a place among the arguments, is not looked at
  kPrepared,  // slot `index` of `self`; takes no place among the arguments
  kSymbol,    // an integer: the value of symbol `index`
  kResult,    // a tensor to write, or None: then env->alloc is asked for it
};

struct ArgInfo {
  std::string name;
  ArgRole role = ArgRole::kInput;
  int index = 0;  // kPrepared: the slot; kSymbol: the symbol; kResult: number of the result
  DType dtype = DType::kF32;
  std::vector<Dim> shape;
  std::vector<Dim> strides;  // in elements; empty: contiguous
  int32_t alignment = 1;     // bytes
};

struct ArgSpec {
  std::string function;
  int32_t device_type = 1;  // DLDeviceType of every tensor
  std::vector<SymbolSpec> symbols;
  std::vector<ArgInfo> args;  // parameters, then results; kPrepared anywhere
};

// Where a call says what a symbol is: an integer argument (dim -1), else a plain dimension of an input. arg -1:
// nowhere.
struct SymbolSource {
  int64_t arg = -1, dim = -1;
};
SymbolSource SourceOf(const ArgSpec& spec, int symbol);

// The byte string; InvalidArgument where the spec contradicts itself (a symbol that nothing binds, a rank above
// kMaxRank, a program that is no expression, two arguments of one slot, ...).
StatusOr<std::string> EncodeArgSpec(const ArgSpec& spec);
StatusOr<ArgSpec> DecodeArgSpec(std::string_view bytes);

// "n", "n*2+1", "(n+1)/2"
std::string Describe(const Dim& dim, const std::vector<SymbolSpec>& symbols);
// "f32[n,256] strides [1,n]"
std::string DescribeType(const ArgInfo& arg, const std::vector<SymbolSpec>& symbols);

}  // namespace cinn_like
