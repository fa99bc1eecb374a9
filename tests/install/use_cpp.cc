#include <cstdio>

#include "cinn_like/base/dtype.h"
#include "cinn_like/base/status.h"

int main() {
  for (std::string_view name : {"f32", "bf16", "bool"}) {
    const auto dtype = cinn_like::ParseDType(name);
    if (!dtype || cinn_like::Name(*dtype) != name) return 1;
  }
  std::puts(cinn_like::Cat("dtypes: ", cinn_like::AllDTypeNames()).c_str());
  return 0;
}
