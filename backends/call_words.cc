#include "backends/call_words.h"

#include "runtime/call_function.h"

namespace cinn_like::backends {

std::vector<CallWord> WordsOf(ir::Context& c, const ir::Call& call) {
  std::vector<CallWord> words;
  ir::ForEachOperand(call, [&](const ir::Call::Operand& o, absl::Span<const ir::Expr> args) {
    if (o.is_tensor) {
      const DTypeInfo& info = InfoOf(o.dtype);
      words.push_back({ArgumentWord::Tensor(info.dlpack_code, info.bits, o.rank, o.has_strides, o.is_output)});
      for (ir::Expr e : args) words.push_back({.value = e});
    } else if (IsFloat(o.dtype)) {
      words.push_back({ArgumentWord::Scalar(kCinnFloat)});
      words.push_back({.value = c.Cast(DType::kF64, args[0])});
    } else {
      words.push_back({ArgumentWord::Scalar(o.dtype == DType::kBool ? kCinnBool : kCinnInt)});
      words.push_back({.value = args[0]});
    }
  });
  return words;
}

}  // namespace cinn_like::backends
