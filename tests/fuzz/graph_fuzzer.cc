#include "tests/fuzz/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cinn_like::fuzz::EndIfInternal(cinn_like::fuzz::TryGraph(cinn_like::fuzz::Text(data, size)));
  return 0;
}
