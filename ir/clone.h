// Copies of statements for passes that duplicate code: names stay unique in a Func, so what a copy declares is renamed.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
// `s` with variables replaced by `map`, and with fresh names for the loops, lets, blocks, iterators and buffers that it
// declares.
Stmt CloneFresh(Context& c, const Stmt& s, NameSupply& names, const VarMap& map = {});
}  // namespace cinn_like::ir
