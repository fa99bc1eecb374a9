// Expressions of lowered code as C-family text, one lane at a time. Within one statement a shared node becomes a
// temporary, so that text and work stay linear in the DAG:
//
//   y[i] = t * t  with t = x[i] + 1    ->    const float t0 = p0[i0] + 1.0f;   p1[i0] = t0 * t0;
//
// Contiguous vector loads and stores whose alignment is provable become accesses of 4, 8 or 16 bytes.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "backends/dialects.h"
#include "ir/analyzer.h"

namespace cinn_like::backends {

// Lines of text at an indentation.
class TextBuilder {
 public:
  template <class... Args>
  void Line(const Args&... args) {
    text_ += std::string(static_cast<size_t>(indent_) * 2, ' ') + Cat(args...) + "\n";
  }
  // A directive, which stands at the start of its line.
  void Directive(std::string_view s) { text_ += Cat(s, "\n"); }
  template <class... Args>
  void Open(const Args&... args) {
    Line(args..., " {");
    ++indent_;
  }
  void OpenScope() {
    Line("{");
    ++indent_;
  }
  void Else() {
    --indent_;
    Open("} else");
  }
  void Close() {
    --indent_;
    Line("}");
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
  int indent_ = 0;
};

class ExprPrinter {
 public:
  ExprPrinter(const Dialect& dialect, const ir::Func& f, TextBuilder& out) : d_(dialect), out_(out), analyzer_(f) {}

  // What later text calls a variable or buffer.
  void NameVar(ir::Expr var, std::string name) { var_names_[var] = std::move(name); }
  void NameBuffer(ir::Buffer b, std::string name) { buffer_names_[b] = std::move(name); }
  const std::string& NameOf(ir::Buffer b) const { return buffer_names_.at(b); }
  // var = value, printed as `name`.
  void NameLet(ir::Expr var, std::string name, ir::Expr value);
  // Global memory that is only read, by one load, each element once: not worth keeping in a cache.
  void NoteStreamed(ir::Buffer b) { streamed_.insert(b); }

  // Shared memory in panels of rows of `pitch` elements, which lie where the helper cinn_panel says. False if it is
  // known as one of another pitch.
  bool NotePanel(ir::Buffer b, int64_t pitch) { return panels_.try_emplace(b, pitch).first->second == pitch; }
  bool IsPanel(ir::Buffer b) const { return panels_.contains(b); }

  // A new statement whose expressions are `roots`; temporaries of the last one are forgotten.
  void Begin(const std::vector<ir::Expr>& roots);
  // The text of a lane of an expression under a root; of lane kEachLane in a loop over them.
  std::string Print(ir::Expr e, int lane = 0) { return Lane(e, lane).text; }
  void PrintStore(const ir::Store& s);
  // A vector that lets name, as an array that a loop over its lanes fills: of dialects with loops over lanes.
  void PrintLanes(std::string_view name, ir::Expr value);
  // Four stores of two 16-bit floats each to global memory, the same distance apart, where `x` is the number of the
  // thread of four that have all eight between them, become one of 16 bytes by each thread. False, and nothing is
  // printed, where they are anything else.
  bool IsQuad(const std::vector<const ir::Store*>& stores, ir::Expr x) { return PlaceOfQuad(stores, x) != nullptr; }
  bool PrintQuad(const std::vector<const ir::Store*>& stores, ir::Expr x);
  // A store to shared memory of what is a load of global memory, as the dialect's asynchronous copies. False, and
  // nothing is printed, where it is anything else.
  bool PrintCopy(const ir::Store& s);

  std::string_view ValueType(DType t) const { return d_.value_types[static_cast<int>(t)]; }
  std::string_view MemoryType(DType t) const { return d_.memory_types[static_cast<int>(t)]; }
  // What the type of a pointer into `b` starts with.
  std::string_view Space(ir::Buffer b) const {
    return b->scope == ir::Scope::kGlobal ? d_.global_space : b->scope == ir::Scope::kShared ? d_.shared_space : "";
  }
  // The first thing that could not be spelled.
  const Status& status() const { return status_; }

 private:
  // Whether `e` is computed from elements of tensors.
  bool IsData(ir::Expr e);
  void CountAhead(ir::Expr select);

  static constexpr int kEachLane = -1;
  static constexpr std::string_view kLane = "l";  // the variable of a loop over lanes
  struct Piece {
    std::string text;
    int precedence = kAtom;
  };
  // A vector access as `count` pieces of `words` 32-bit words (1, 2 or 4) each; words 0: element by element.
  struct Chunks {
    int words = 0;
    int count = 0;
  };
  using Words = std::vector<std::string>;
  using LaneFn = std::function<Piece(int lane)>;

  static std::string Paren(const std::string& text, int precedence, int needed);
  void Fail(std::string_view what, ir::Expr e);
  Piece Lane(ir::Expr e, int lane);
  Piece Compute(ir::Expr e, int lane);
  Piece Constant(ir::Expr e) const;
  Piece Cast(DType to, DType from, const Piece& v) const;
  const Spelling* SpellingOf(ir::Expr e, ir::ExprOp op, DType on);
  Piece Fill(const Spelling& s, const std::vector<Piece>& args, DType on) const;
  Piece Operator(ir::Expr e, int lane);
  Piece ReduceLanes(ir::Expr e);
  Piece Temporary(DType t, const Piece& value);
  void OpenLaneLoop(int lanes);
  // Whether a store's lanes can be written in turn.
  bool WritesInTurn(const ir::Store& s) const;
  Piece LoadLane(ir::Expr e, int lane);
  Piece Element(ir::Buffer b, const Piece& index) const;
  // The index that thread x stores to; null: these are no such stores.
  ir::Expr PlaceOfQuad(const std::vector<const ir::Store*>& stores, ir::Expr x);
  // Where an element lies.
  Piece PlaceOf(ir::Buffer b, Piece index) const;
  // The lanes of a mask, each an atom; one for a scalar mask, none for null.
  std::vector<std::string> Mask(ir::Expr mask);

  Chunks ChunksOf(ir::Buffer b, ir::Expr index);
  std::string PointerTo(ir::Buffer b, Chunks c, const Piece& base, int chunk) const;
  std::string Chunk(ir::Buffer b, Chunks c, const Piece& base, int chunk, bool is_const) const;
  const Words& LoadWords(ir::Expr e, Chunks chunks);
  Piece LaneOfWords(DType t, const Words& words, int lane) const;
  Words PackWords(DType t, int lanes, const LaneFn& lane);
  std::string JoinWords(const Words& words, Chunks c, int chunk) const;
  Piece AddOffset(const Piece& base, DType t, int64_t offset) const;

  const Dialect& d_;
  TextBuilder& out_;
  ir::Analyzer analyzer_;
  absl::flat_hash_map<ir::Expr, std::string> var_names_;
  absl::flat_hash_map<ir::Buffer, std::string> buffer_names_;
  absl::flat_hash_set<ir::Expr> data_vars_;
  absl::flat_hash_set<ir::Buffer> streamed_;
  absl::flat_hash_map<ir::Buffer, int64_t> panels_;
  absl::flat_hash_map<ir::Expr, int> uses_;
  absl::flat_hash_map<std::pair<ir::Expr, int>, Piece> memo_;
  std::string each_lane_{kLane};  // the number of lane kEachLane
  absl::flat_hash_map<ir::Expr, Words> words_;
  absl::flat_hash_map<ir::Expr, bool> is_data_;
  int next_temporary_ = 0;
  Status status_;
};

}  // namespace cinn_like::backends
