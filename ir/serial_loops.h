// What a schedule asked for and lowering did not do: loops that run one iteration after the other all the same. Found
// by comparing what went in with what came out, so that no pass can keep it to itself.
//
//   for v in 0..8 @vectorized { s[0] = s[0] * x[v] + 1.0 }     =>  "@f: loop v is not vectorized but serial"
#pragma once
#include <string>
#include <vector>

#include "ir/stmt.h"

namespace cinn_like::ir {

// `lowered`: what LowerModule made of `scheduled`. One line a loop, in the order of the loops.
std::vector<std::string> FindSerialLoops(const Module& scheduled, const Module& lowered);

}  // namespace cinn_like::ir
