// Copies of statements for passes that duplicate code: names stay unique in a Func, so what a copy declares is renamed.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
// `s` with variables replaced by `map`, and with fresh names for the loops, lets, blocks, iterators and buffers that it
// declares, which end in `suffix`.
Stmt CloneFresh(Context& c, const Stmt& s, NameSupply& names, const VarMap& map = {}, std::string_view suffix = "");
}  // namespace cinn_like::ir
