// The words of runtime/call_function.h that a call of a function by name hands over.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/stmt.h"

namespace cinn_like::backends {

struct CallWord {
  uint64_t number = 0;
  ir::Expr value = nullptr;  // an address, an integer, a bool, or an f64 whose bits it is; null: `number`
};
std::vector<CallWord> WordsOf(ir::Context& c, const ir::Call& call);

}  // namespace cinn_like::backends
