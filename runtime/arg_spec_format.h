// The bytes of an encoded ArgSpec: 64-bit little-endian words, then names. Only arg_spec.cc and bind_args.cc look.
//
//   header:  magic, number of arguments of the call, of entries, of symbols, of slots, device type, function name
//   symbol:  name, min, max, divisor, argument of the call that binds it, its dimension (-1: it is an integer)
//   entry:   words of this entry, name, role, index, dtype (code | bits << 8), alignment, rank, strided,
//            `rank` dims, and `rank` strides if strided
//   program: number of steps, then (op | value << 3) each; between the entries and the names
//   name:    offset << 32 | size, the offset in bytes from the beginning
//   dim:     value << 2 | kind: 0 a constant, 1 a symbol, 2 a program at this word
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

namespace cinn_like::arg_spec_format {

constexpr int64_t kMagic = 0x31304e4e4943;  // "CINN01"
enum Header { kMagicWord, kNumArgs, kNumEntries, kNumSymbols, kNumSlots, kDeviceType, kFunction, kHeaderWords };
enum Symbol { kSymbolName, kMin, kMax, kDivisor, kSourceArg, kSourceDim, kSymbolWords };
enum Entry { kSize, kName, kRole, kIndex, kDType, kAlignment, kRank, kStrided, kDims };
enum DimKind { kConstDim, kSymbolDim, kProgramDim };

// Reads words at any alignment.
class Words {
 public:
  explicit Words(const char* base, int64_t word = 0) : base_(base), at_(base + word * 8) {}
  int64_t operator[](int64_t i) const {
    int64_t value;
    std::memcpy(&value, at_ + i * 8, 8);
    return value;
  }
  Words At(int64_t word) const { return Words(base_, word); }  // from the beginning
  Words Skip(int64_t words) const {
    Words w = *this;
    w.at_ += words * 8;
    return w;
  }
  std::string_view Text(int64_t name) const { return {base_ + (name >> 32), static_cast<size_t>(name & 0xffffffff)}; }

 private:
  const char* base_;
  const char* at_;
};

}  // namespace cinn_like::arg_spec_format
