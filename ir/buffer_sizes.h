// Whether a function's buffers can be counted in bytes.
#pragma once
#include <algorithm>
#include <memory>

#include "ir/analyzer.h"
#include "ir/stmt.h"

namespace cinn_like::ir {

class BufferSizes {
 public:
  explicit BufferSizes(const Func& f) : f_(f) {}
  // InvalidArgument naming the buffer where it is beyond kMaxBytes, whatever the symbols.
  Status Check(Buffer b) {
    double bytes = BytesOf(b->dtype);
    for (Expr e : b->shape) bytes *= static_cast<double>(std::max<int64_t>(1, Least(e)));
    if (bytes <= kMaxBytes) return {};
    return InvalidArgument("buffer ", b->name, " is too large: expected at most ", static_cast<int64_t>(kMaxBytes),
                           " bytes, got ", bytes);
  }
  // All that it allocates.
  Status CheckAllocations() {
    Status status;
    VisitStmts(f_.body, [&](const Stmt& s) {
      if (const Alloc* n = As<Alloc>(s); n != nullptr && status.ok()) status = Check(n->buffer);
      return status.ok();
    });
    return status;
  }

 private:
  int64_t Least(Expr extent) {
    if (IsInt(extent)) return extent->int_value;
    if (analyzer_ == nullptr) analyzer_ = std::make_unique<Analyzer>(f_);
    return analyzer_->ConstBounds(extent).lo;
  }

  const Func& f_;
  std::unique_ptr<Analyzer> analyzer_;  // of the symbols; made when it is asked
};

}  // namespace cinn_like::ir
