#include "backends/c_host.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "backends/call_words.h"

namespace cinn_like::backends {
namespace {
using ir::Expr;
using ir::Stmt;

// Of an address from its buffer, in elements. Only parameters of entry functions still have dimensions.
Expr OffsetOf(ir::Context& c, Expr address) {
  const ir::Buffer b = address->buffer;
  Expr offset = c.Int(0), compact = c.Int(1);
  for (size_t d = address->args.size(); d-- > 0;) {
    const Expr stride = b->strides.empty() ? compact : b->strides[d];
    if (!ir::IsInt(address->args[d], 0)) offset = c.Add(offset, c.Mul(address->args[d], stride));
    if (d > 0) compact = c.Mul(compact, b->shape[d]);
  }
  return offset;
}

}  // namespace

CHostPrinter::Frame CHostPrinter::FrameOf(const Stmt& body, int nesting) const {
  Frame r;
  r.nesting = nesting;
  ir::VisitStmts(body, [&](const Stmt& s) {
    const auto* alloc = ir::As<ir::Alloc>(s);
    if (alloc != nullptr && alloc->buffer->scope == ir::Scope::kGlobal) r.heap.push_back(alloc->buffer);
    r.can_fail |= ir::As<ir::Call>(s) != nullptr;
    const auto* loop = ir::As<ir::For>(s);
    if (loop == nullptr || loop->kind != ir::ForKind::kParallel) return true;
    r.can_fail |= FrameOf(loop->body, nesting).can_fail;
    return false;
  });
  r.can_fail |= !r.heap.empty();
  return r;
}

void CHostPrinter::OpenFrame(Frame frame) {
  for (ir::Buffer b : frame.heap) {
    const std::string n = Cat("g", heap_count_++);
    printer_.NameBuffer(b, n);
    out_.Line(printer_.MemoryType(b->dtype), "* ", n, " = 0;");
  }
  frames_.push_back(std::move(frame));
}

void CHostPrinter::CloseFrame() {
  out_.Directive(Cat(frames_.back().label, ":"));
  for (ir::Buffer b : frames_.back().heap) Free(b);
  frames_.pop_back();
}

void CHostPrinter::Free(ir::Buffer b) {
  out_.Line(entry_ != nullptr ? "cinn_free_workspace(env, " : "free(", printer_.NameOf(b), ");");
}

std::string CHostPrinter::Leave(std::string_view code) const {
  return Cat("{ ", frames_.back().status, " = ", code, "; goto ", frames_.back().label, "; }");
}

void CHostPrinter::Open(std::string_view signature) {
  Frame frame = FrameOf(f_.body, 0);
  frame.label = "done", frame.status = "status";
  frame.can_fail |= entry_ != nullptr && entry_->is_prepare;
  ir::ForEachExpr(f_.body, [&](Expr e) {
    ir::Visit(e, [&](Expr x) {
      read_.insert(x);
      read_.insert(x->buffer);
      return true;
    });
  });
  absl::flat_hash_set<const void*> used = read_;
  for (ir::Buffer b : ir::BuffersWritten(f_.body)) used.insert(b);
  if (entry_ != nullptr) {
    const auto pointer_type = [&](size_t i) -> std::string {
      const ir::Buffer b = f_.params[i].buffer;
      if (b == nullptr || !used.contains(b)) return "";
      printer_.NameBuffer(b, Cat("p", i));
      return Cat(f_.params[i].role == ir::ParamRole::kResult ? "" : "const ", printer_.MemoryType(b->dtype), "*");
    };
    OpenEntry(*entry_, pointer_type, out_);
    for (size_t i = 0; i < f_.symbols.size(); ++i) printer_.NameVar(f_.symbols[i].var, Cat("n", i));
  } else {
    out_.Open(signature);
    if (frame.can_fail) out_.Line("int32_t status = 0;");
    for (const ir::Param& p : f_.params) {
      if (p.buffer != nullptr ? !used.contains(p.buffer) : !used.contains(p.var))
        out_.Line("(void)", p.buffer != nullptr ? printer_.NameOf(p.buffer) : printer_.Print(p.var), ";");
    }
  }
  OpenFrame(std::move(frame));
}

void CHostPrinter::Close() {
  const bool can_fail = frames_.back().can_fail;
  if (entry_ != nullptr) PrintSuccess(*entry_, out_);
  if (can_fail) CloseFrame();
  if (entry_ != nullptr) PrintCleanup(*entry_, out_);
  out_.Line(can_fail || entry_ != nullptr ? "return status;" : "return 0;");
  out_.Close();
}

bool CHostPrinter::OpenIteration(const Stmt& body, int nesting) {
  Frame frame = FrameOf(body, nesting);
  if (!frame.can_fail) return false;
  const int k = iteration_count_++;
  frame.label = Cat("next", k), frame.status = Cat("code", k);
  out_.Line("int32_t ", frame.status, " = 0;");
  OpenFrame(std::move(frame));
  return true;
}

void CHostPrinter::CloseIteration() {
  const std::string code = frames_.back().status;
  CloseFrame();
  const Frame& outer = frames_.back();
  out_.Line("if (", code, " != 0) cinn_set_status(&", outer.status, ", ", code, ");");
  out_.Close();
  out_.Line("if (", outer.status, " != 0) goto ", outer.label, ";");
}

void CHostPrinter::PrintAlloc(ir::Buffer b, std::string_view size) {
  const std::string_view type = printer_.MemoryType(b->dtype);
  const std::string& n = printer_.NameOf(b);
  out_.Line("if ((", n, " = (", type, "*)", entry_ != nullptr ? "cinn_alloc_workspace(env, " : "cinn_malloc(",
            "sizeof(", type, "), ", size, ")) == 0) ", Leave(Cat("cinn_fail(-8, \"", f_.name, "\", \"memory\")")));
}

void CHostPrinter::FreeAllocsOf(const ir::Seq& seq, int nesting) {
  if (nesting == frames_.back().nesting) return;
  for (const Stmt& s : seq.stmts) {
    const auto* alloc = ir::As<ir::Alloc>(s);
    if (alloc == nullptr || alloc->buffer->scope != ir::Scope::kGlobal) continue;
    Free(alloc->buffer);
    out_.Line(printer_.NameOf(alloc->buffer), " = 0;");
  }
}

std::string CHostPrinter::PointerTo(ir::Buffer b, Expr offset) const {
  if (ir::IsInt(offset, 0)) return printer_.NameOf(b);
  return Cat("(", printer_.NameOf(b), " + ", printer_.Print(offset), ")");
}

Status CHostPrinter::PrintCall(const ir::Call& n) {
  if (n.callee == "cinn_range_error" || n.callee == "cinn_bounds_error") {
    out_.Line(Leave(Cat("cinn_fail(-11, \"", f_.name, "\", \"", absl::CEscape(n.text), "\")")));
    return absl::OkStatus();
  }
  if (n.IsOfFunction()) {
    PrintFunctionCall(n);
    return absl::OkStatus();
  }
  if (n.is_runtime) return Unimplemented("function ", f_.name, ": no c text for the call of ", n.callee);
  std::vector<Expr> values = n.args;
  for (Expr& a : values) {
    if (a->op == ir::ExprOp::kAddress) a = OffsetOf(*f_.context, a);
  }
  printer_.Begin(values);
  std::string args;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) args += ", ";
    if (n.args[i]->op != ir::ExprOp::kAddress)
      args += printer_.Print(values[i]);
    else
      args += Cat("(void*)", PointerTo(n.args[i]->buffer, values[i]));
  }
  const Frame& frame = frames_.back();
  out_.Line("if ((", frame.status, " = ", n.callee, "(", args, ")) != 0) goto ", frame.label, ";");
  return absl::OkStatus();
}

// { const uint64_t words[] = {...}; if ((status = cinn_call_function(0, "sort", words, 2, 0)) != 0) goto done; }
void CHostPrinter::PrintFunctionCall(const ir::Call& n) {
  const std::vector<CallWord> words = WordsOf(*f_.context, n);
  std::vector<Expr> values;
  for (const CallWord& w : words) {
    const bool is_address = w.value != nullptr && w.value->op == ir::ExprOp::kAddress;
    if (w.value != nullptr) values.push_back(is_address ? OffsetOf(*f_.context, w.value) : w.value);
  }
  printer_.Begin(values);
  std::string text;
  auto value = values.begin();
  for (const CallWord& w : words) {
    text += text.empty() ? "" : ", ";
    if (w.value == nullptr)
      text += Cat(w.number, "u");
    else if (w.value->op == ir::ExprOp::kAddress)
      text += Cat("(uintptr_t)", PointerTo(w.value->buffer, *value++));
    else
      text += Cat(IsFloat(w.value->type.dtype) ? "cinn_word_f64(" : "(uint64_t)(", printer_.Print(*value++), ")");
  }
  const Frame& frame = frames_.back();
  out_.OpenScope();
  out_.Line("const uint64_t words[] = {", words.empty() ? "0" : text, "};");
  out_.Line("if ((", frame.status, " = cinn_call_function(0, \"", absl::CEscape(n.text), "\", words, ",
            n.operands.size(), ", 0)) != 0) goto ", frame.label, ";");
  out_.Close();
}

}  // namespace cinn_like::backends
