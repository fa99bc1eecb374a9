#include "runtime/arg_spec.h"

#include <algorithm>

#include "runtime/arg_spec_format.h"

namespace cinn_like {
namespace {

using namespace arg_spec_format;

constexpr int64_t kMaxPlainDim = INT64_MAX >> 3;  // what fits beside a kind or an op in a word

// Postfix: every step finds its operands, one value is left.
Status CheckDim(const Dim& dim, int num_symbols, std::string_view what) {
  int depth = 0;
  for (const DimStep& step : dim) {
    if (step.op == DimOp::kConst || step.op == DimOp::kSymbol) {
      if (step.op == DimOp::kSymbol && (step.value < 0 || step.value >= num_symbols)) {
        return InvalidArgument(what, ": symbol number ", step.value, " of ", num_symbols);
      }
      if (step.value > kMaxPlainDim || step.value < -kMaxPlainDim) {
        return InvalidArgument(what, ": constant ", step.value, " is too large");
      }
      if (++depth > kMaxRank) return InvalidArgument(what, ": an expression deeper than ", kMaxRank);
    } else if (--depth < 1) {
      return InvalidArgument(what, ": an operator without operands");
    }
  }
  if (depth != 1) return InvalidArgument(what, ": an expression with ", depth, " values, expected 1");
  return absl::OkStatus();
}

bool TakesArgument(ArgRole role) { return role != ArgRole::kPrepared; }
bool IsTensor(ArgRole role) { return role != ArgRole::kPacked && role != ArgRole::kSymbol; }

struct Encoder {
  std::vector<int64_t> words;
  std::vector<std::pair<size_t, const Dim*>> programs;  // (word that refers to it, program)
  std::vector<std::pair<size_t, std::string_view>> names;

  void Name(std::string_view text) {
    names.emplace_back(words.size(), text);
    words.push_back(0);
  }
  void AddDim(const Dim& dim) {
    if (dim.size() == 1) {
      words.push_back(dim[0].value * 4 + (dim[0].op == DimOp::kConst ? kConstDim : arg_spec_format::kSymbolDim));
    } else {
      programs.emplace_back(words.size(), &dim);
      words.push_back(0);
    }
  }
  std::string Finish() {
    for (const auto& [word, program] : programs) {
      words[word] = static_cast<int64_t>(words.size()) * 4 + kProgramDim;
      words.push_back(static_cast<int64_t>(program->size()));
      for (const DimStep& step : *program) words.push_back(step.value * 8 + static_cast<int>(step.op));
    }
    int64_t offset = static_cast<int64_t>(words.size()) * 8;
    std::string text;
    for (const auto& [word, name] : names) {
      words[word] = (offset + static_cast<int64_t>(text.size())) << 32 | static_cast<int64_t>(name.size());
      text += name;
    }
    return std::string(reinterpret_cast<const char*>(words.data()), words.size() * 8) + text;
  }
};

Status CheckArg(const ArgSpec& spec, const ArgInfo& arg) {
  const std::string what = Cat(spec.function, ": argument '", arg.name, "'");
  const int num_symbols = static_cast<int>(spec.symbols.size());
  if (arg.index < 0) return InvalidArgument(what, ": index ", arg.index);
  if (arg.role == ArgRole::kSymbol && arg.index >= num_symbols) {
    return InvalidArgument(what, ": symbol number ", arg.index, " of ", num_symbols);
  }
  if (arg.shape.size() > kMaxRank) return InvalidArgument(what, ": rank ", arg.shape.size(), " is above ", kMaxRank);
  if (!arg.strides.empty() && arg.strides.size() != arg.shape.size()) {
    return InvalidArgument(what, ": ", arg.strides.size(), " strides for rank ", arg.shape.size());
  }
  if (arg.alignment < 1 || (arg.alignment & (arg.alignment - 1)) != 0) {
    return InvalidArgument(what, ": alignment ", arg.alignment, " is no power of two");
  }
  for (const Dim& dim : arg.shape) RETURN_IF_ERROR(CheckDim(dim, num_symbols, what));
  for (const Dim& dim : arg.strides) RETURN_IF_ERROR(CheckDim(dim, num_symbols, what));
  return absl::OkStatus();
}

}  // namespace

SymbolSource SourceOf(const ArgSpec& spec, int symbol) {
  SymbolSource found;
  int64_t position = 0;  // among the arguments of the call
  for (const ArgInfo& arg : spec.args) {
    if (arg.role == ArgRole::kSymbol && arg.index == symbol) return {position, -1};
    for (size_t d = 0; arg.role == ArgRole::kInput && found.arg < 0 && d < arg.shape.size(); ++d) {
      if (arg.shape[d] == SymbolDim(symbol)) found = {position, static_cast<int64_t>(d)};
    }
    position += TakesArgument(arg.role) ? 1 : 0;
  }
  return found;
}

StatusOr<std::string> EncodeArgSpec(const ArgSpec& spec) {
  int64_t num_args = 0, num_slots = 0;
  for (const ArgInfo& arg : spec.args) {
    RETURN_IF_ERROR(CheckArg(spec, arg));
    num_args += TakesArgument(arg.role) ? 1 : 0;
    if (arg.role == ArgRole::kPrepared) num_slots = std::max<int64_t>(num_slots, arg.index + 1);
  }
  Encoder e;
  e.words = {
      kMagic,    num_args,        static_cast<int64_t>(spec.args.size()), static_cast<int64_t>(spec.symbols.size()),
      num_slots, spec.device_type};
  e.Name(spec.function);
  for (size_t s = 0; s < spec.symbols.size(); ++s) {
    const SymbolSpec& symbol = spec.symbols[s];
    if (symbol.divisor < 1 || symbol.min < 0 || symbol.max < symbol.min) {
      return InvalidArgument(spec.function, ": symbol '", symbol.name, "' in ", symbol.min, "..", symbol.max,
                             " multiple ", symbol.divisor);
    }
    const SymbolSource source = SourceOf(spec, static_cast<int>(s));
    if (source.arg < 0) {
      return InvalidArgument(spec.function, ": symbol '", symbol.name,
                             "' is no plain dimension of an input and no argument");
    }
    e.Name(symbol.name);
    for (int64_t word : {symbol.min, symbol.max, symbol.divisor, source.arg, source.dim}) {
      e.words.push_back(word);
    }
  }
  for (const ArgInfo& arg : spec.args) {
    const bool tensor = IsTensor(arg.role);
    const bool strided = tensor && !arg.strides.empty();
    const auto rank = static_cast<int64_t>(tensor ? arg.shape.size() : 0);
    const DTypeInfo& info = InfoOf(arg.dtype);
    e.words.push_back(kDims + rank * (strided ? 2 : 1));
    e.Name(arg.name);
    for (int64_t word : {static_cast<int64_t>(arg.role), int64_t{arg.index}, int64_t{info.dlpack_code | info.bits << 8},
                         int64_t{arg.alignment}, rank, int64_t{strided}}) {
      e.words.push_back(word);
    }
    if (!tensor) continue;
    for (const Dim& dim : arg.shape) e.AddDim(dim);
    for (const Dim& dim : arg.strides) e.AddDim(dim);
  }
  return e.Finish();
}

StatusOr<ArgSpec> DecodeArgSpec(std::string_view bytes) {
  const Words header(bytes.data());
  if (bytes.size() < kHeaderWords * 8 || header[kMagicWord] != kMagic) {
    return InvalidArgument("argument spec: not one, or of another version");
  }
  ArgSpec spec;
  spec.function = header.Text(header[kFunction]);
  spec.device_type = static_cast<int32_t>(header[kDeviceType]);
  Words at = header.Skip(kHeaderWords);
  for (int64_t s = 0; s < header[kNumSymbols]; ++s, at = at.Skip(kSymbolWords)) {
    spec.symbols.push_back({std::string(at.Text(at[kSymbolName])), at[kMin], at[kMax], at[kDivisor]});
  }
  const auto read_dim = [&](int64_t word) -> Dim {
    const int64_t value = word >> 2;
    if ((word & 3) != kProgramDim) return {{(word & 3) == kConstDim ? DimOp::kConst : DimOp::kSymbol, value}};
    Dim dim;
    const Words program = header.At(value);
    for (int64_t i = 1; i <= program[0]; ++i) dim.push_back({static_cast<DimOp>(program[i] & 7), program[i] >> 3});
    return dim;
  };
  for (int64_t i = 0; i < header[kNumEntries]; ++i, at = at.Skip(at[kSize])) {
    ArgInfo arg;
    arg.name = at.Text(at[kName]);
    arg.role = static_cast<ArgRole>(at[kRole]);
    arg.index = static_cast<int>(at[kIndex]);
    arg.alignment = static_cast<int32_t>(at[kAlignment]);
    const std::optional<DType> dtype = FromDLPack(at[kDType] & 255, static_cast<uint8_t>(at[kDType] >> 8));
    if (!dtype) return InvalidArgument("argument spec: argument '", arg.name, "' has no known dtype");
    arg.dtype = *dtype;
    const int64_t rank = at[kRank];
    for (int64_t d = 0; d < rank; ++d) arg.shape.push_back(read_dim(at[kDims + d]));
    for (int64_t d = 0; at[kStrided] != 0 && d < rank; ++d) arg.strides.push_back(read_dim(at[kDims + rank + d]));
    spec.args.push_back(std::move(arg));
  }
  return spec;
}

std::string Describe(const Dim& dim, const std::vector<SymbolSpec>& symbols) {
  struct Piece {
    std::string text;
    int level;  // 0 sum, 1 product, 2 atom
  };
  std::vector<Piece> stack;
  for (const DimStep& step : dim) {
    if (step.op == DimOp::kConst) {
      stack.push_back({Cat(step.value), 2});
    } else if (step.op == DimOp::kSymbol) {
      stack.push_back({symbols[step.value].name, 2});
    } else {
      static constexpr const char* kSigns[] = {"+", "-", "*", "/", "%"};
      const int level = step.op == DimOp::kAdd || step.op == DimOp::kSub ? 0 : 1;
      Piece right = std::move(stack.back());
      stack.pop_back();
      Piece& left = stack.back();
      if (left.level < level) left.text = Cat("(", left.text, ")");
      if (right.level <= level) right.text = Cat("(", right.text, ")");
      left = {Cat(left.text, kSigns[static_cast<int>(step.op) - static_cast<int>(DimOp::kAdd)], right.text), level};
    }
  }
  return stack.back().text;
}

std::string DescribeType(const ArgInfo& arg, const std::vector<SymbolSpec>& symbols) {
  const auto list = [&](const std::vector<Dim>& dims) {
    std::string text = "[";
    for (size_t i = 0; i < dims.size(); ++i) text += Cat(i == 0 ? "" : ",", Describe(dims[i], symbols));
    return text + "]";
  };
  std::string text = Cat(Name(arg.dtype), list(arg.shape));
  if (!arg.strides.empty()) text += Cat(" strides ", list(arg.strides));
  return text;
}

}  // namespace cinn_like
