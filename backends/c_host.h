// What host functions of C text have and kernels have not: memory from the heap, calls that may fail, and an end that
// all of them leave by. A parallel loop's iterations leave one by one, the function after the loop.
//
//   for i in 0..n @parallel { alloc t: f32[m] @global ... }
//   ->  cinn_parallel
//       for (int64_t i0 = 0; i0 < n0; ++i0) {
//         int32_t code0 = 0;
//         float* g0 = 0;
//         if ((g0 = (float*)cinn_malloc(sizeof(float), n1)) == 0) { code0 = cinn_fail(...); goto next0; }
//         ...
//       next0:
//         free(g0);
//         if (code0 != 0) cinn_set_status(&status, code0);
//       }
//       if (status != 0) goto done;
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "backends/c_entry.h"
#include "backends/expr_printer.h"

namespace cinn_like::backends {

class CHostPrinter {
 public:
  // `entry` is null where `f` is no entry function.
  CHostPrinter(const ir::Func& f, const CEntry* entry, ExprPrinter& printer, TextBuilder& out)
      : f_(f), entry_(entry), printer_(printer), out_(out) {}

  void Open(std::string_view signature);
  void Close();
  // An iteration of a parallel loop that may fail; false, and nothing is printed, where it does not. `nesting`:
  // branches and loops around its body.
  bool OpenIteration(const ir::Stmt& body, int nesting);
  void CloseIteration();

  void PrintAlloc(ir::Buffer b, std::string_view size);
  // At the end of a sequence; what the function or the iteration has at its outermost is freed where these end.
  void FreeAllocsOf(const ir::Seq& seq, int nesting);
  Status PrintCall(const ir::Call& n);
  // Whether the function reads a variable or a buffer.
  bool IsRead(const void* x) const { return read_.contains(x); }

 private:
  // What is left early where something fails.
  struct Frame {
    std::string label, status;
    std::vector<ir::Buffer> heap;
    int nesting = 0;
    bool can_fail = false;
  };

  Frame FrameOf(const ir::Stmt& body, int nesting) const;
  void OpenFrame(Frame frame);
  void CloseFrame();
  void Free(ir::Buffer b);
  // With a failure's code.
  std::string Leave(std::string_view code) const;
  std::string PointerTo(ir::Buffer b, ir::Expr offset) const;
  void PrintFunctionCall(const ir::Call& n);

  const ir::Func& f_;
  const CEntry* const entry_;
  ExprPrinter& printer_;
  TextBuilder& out_;
  std::vector<Frame> frames_;
  absl::flat_hash_set<const void*> read_;
  int heap_count_ = 0, iteration_count_ = 0;
};

}  // namespace cinn_like::backends
