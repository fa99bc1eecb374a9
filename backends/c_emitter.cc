#include "backends/c_emitter.h"

#include <algorithm>

#include "absl/strings/str_replace.h"
#include "backends/expr_printer.h"
#include "backends/kernel_facts.h"
#include "ir/passes/split_host_device.h"

namespace cinn_like::backends {
namespace {
using ir::Expr;
using ir::ForKind;
using ir::Stmt;

class FuncEmitter {
 public:
  FuncEmitter(const ir::Func& f, const Dialect& d) : f_(f), d_(d), printer_(d, f, out_), facts_(FindKernelFacts(f)) {}

  StatusOr<std::string> Emit(std::string_view name) {
    const bool is_kernel = f_.kind == ir::FuncKind::kKernel;
    if (is_kernel != d_.HasKernels()) {
      return InvalidArgument("function ", f_.name, ": ", d_.name, " text is for ",
                             is_kernel ? "host functions" : "kernels");
    }
    for (ir::Buffer b : facts_.streamed) printer_.NoteStreamed(b);
    ASSIGN_OR_RETURN(std::string signature, Signature(name));
    ASSIGN_OR_RETURN(const int64_t threads, facts_.Threads());
    absl::StrReplaceAll({{"$N", Cat(threads)}}, &signature);
    out_.Open(signature);
    if (!is_kernel && facts_.can_fail) {
      out_.Line("int32_t status = 0;");
      for (ir::Buffer b : facts_.heap) out_.Line(DeclareHeap(b));
    }
    if (is_kernel && ir::DynamicSharedBytes(f_.body) > 0) {
      dynamic_shared_ = 0;
      out_.Line(d_.dynamic_shared);
    }
    RETURN_IF_ERROR(Emit(f_.body));
    RETURN_IF_ERROR(Annotate(printer_.status(), Cat("function ", f_.name)));
    if (!is_kernel) {
      if (facts_.can_fail) {
        out_.Directive("done:");
        for (ir::Buffer b : facts_.heap) out_.Line("free(", printer_.NameOf(b), ");");
      }
      out_.Line(facts_.can_fail ? "return status;" : "return 0;");
    }
    out_.Close();
    return out_.Take();
  }

 private:
  StatusOr<std::string> Signature(std::string_view name) {
    std::string params;
    int pointers = 0, scalars = 0;
    for (const ir::Param& p : f_.params) {
      if (!params.empty()) params += ", ";
      if (p.buffer != nullptr) {
        const std::string n = Cat("p", pointers++);
        printer_.NameBuffer(p.buffer, n);
        const bool is_const = !facts_.written.contains(p.buffer);
        params += Cat(is_const ? "const " : "", printer_.MemoryType(p.buffer->dtype), "* ", d_.restricted, " ", n);
      } else {
        const std::string n = Cat("n", scalars++);
        printer_.NameVar(p.var, n);
        params += Cat(printer_.ValueType(p.var->type.dtype), " ", n);
      }
    }
    if (params.empty() && !d_.HasKernels()) params = "void";
    return Cat(d_.HasKernels() ? d_.kernel : d_.function, " ", name, "(", params, ")");
  }

  std::string DeclareHeap(ir::Buffer b) {
    const std::string n = Cat("g", heap_count_++);
    printer_.NameBuffer(b, n);
    return Cat(printer_.MemoryType(b->dtype), "* ", n, " = 0;");
  }

  Status Unsupported(std::string_view what) {
    return Unimplemented("function ", f_.name, ": no ", d_.name, " text for ", what);
  }

  Status Emit(const Stmt& s) {
    return ir::Match(
        s,
        [&](const ir::Seq& n) -> Status {
          for (const Stmt& x : n.stmts) RETURN_IF_ERROR(Emit(x));
          return absl::OkStatus();
        },
        [&](const ir::For& n) { return EmitFor(n); },
        [&](const ir::If& n) -> Status {
          printer_.Begin({n.cond});
          out_.Open("if (", printer_.Print(n.cond), ")");
          RETURN_IF_ERROR(Emit(n.then));
          if (n.otherwise != nullptr) {
            out_.Else();
            ++rests_;
            RETURN_IF_ERROR(Emit(n.otherwise));
            --rests_;
          }
          out_.Close();
          return absl::OkStatus();
        },
        [&](const ir::Let& n) -> Status {
          printer_.Begin({n.value});
          const std::string name = Cat("v", let_count_++);
          for (int i = 0; i < n.value->type.lanes; ++i) {
            const std::string value = printer_.Print(n.value, i);
            out_.Line("const ", printer_.ValueType(n.value->type.dtype), " ", name,
                      n.value->type.lanes == 1 ? "" : Cat("_", i), " = ", value, ";");
          }
          printer_.NameLet(n.var, name, n.value);
          return absl::OkStatus();
        },
        [&](const ir::Alloc& n) { return EmitAlloc(n.buffer); },
        [&](const ir::Store& n) -> Status {
          std::vector<Expr> roots = {n.indices[0], n.value};
          if (n.mask != nullptr) roots.push_back(n.mask);
          printer_.Begin(roots);
          printer_.PrintStore(n);
          return absl::OkStatus();
        },
        [&](const ir::Barrier&) -> Status {
          if (d_.barrier.empty()) return Unsupported("a barrier");
          out_.Line(d_.barrier);
          return absl::OkStatus();
        },
        [&](const ir::Call& n) -> Status {
          if (n.callee == "cinn_range_error" && !d_.assertion.empty()) {
            std::string text(d_.assertion);
            absl::StrReplaceAll({{"$0", n.text}}, &text);
            out_.Line(text);
            return absl::OkStatus();
          }
          if (n.callee == "cinn_bounds_error" && !d_.bounds_error.empty()) {
            printer_.Begin(n.args);
            const std::string index = printer_.Print(n.args[0]), size = printer_.Print(n.args[1]);
            std::string text(d_.bounds_error);
            absl::StrReplaceAll({{"$0", n.text}, {"$1", index}, {"$2", size}}, &text);
            out_.Line(text);
            return absl::OkStatus();
          }
          if (n.is_runtime || d_.HasKernels()) return Unsupported(Cat("the call of ", n.callee));
          printer_.Begin(n.args);
          std::string args;
          for (Expr a : n.args) {
            if (!args.empty()) args += ", ";
            if (a->op == ir::ExprOp::kAddress)
              args += Cat(printer_.NameOf(a->buffer), " + ", printer_.Print(a->args[0]));
            else
              args += printer_.Print(a);
          }
          out_.Line("if ((status = ", n.callee, "(", args, ")) != 0) goto done;");
          return absl::OkStatus();
        },
        [&](const ir::Launch&) { return Unsupported("a kernel launch"); },
        [&](const ir::Block& n) { return Unsupported(Cat("block ", n.name, ": lower the function first")); });
  }

  Status EmitFor(const ir::For& n) {
    const std::string name = Cat("i", loop_count_++);
    const std::string_view type = printer_.ValueType(n.var->type.dtype);
    printer_.NameVar(n.var, name);
    if (ir::IsBlockAxis(n.kind) || ir::IsThreadAxis(n.kind)) {
      if (!d_.HasKernels()) return Unsupported(Cat("loops bound to ", Name(n.kind)));
      const int axis = static_cast<int>(n.kind) - static_cast<int>(ForKind::kBlockX);
      out_.Line("const ", type, " ", name, " = ", d_.axes[static_cast<size_t>(axis)], ";");
      return Emit(n.body);
    }
    if (n.kind == ForKind::kVectorized || (n.kind == ForKind::kParallel && d_.HasKernels())) {
      return Unsupported(Cat(Name(n.kind), " loops: lower the function first"));
    }
    printer_.Begin({n.extent});
    std::string extent = printer_.Print(n.extent);
    const bool unroll = n.kind == ForKind::kUnrolled || facts_.unrolled.contains(n.var);
    if (unroll && !d_.unroll.empty()) out_.Directive(d_.unroll);
    // The registers of what runs seldom would be taken from what runs most.
    if (!unroll && rests_ > 0 && !d_.keep.empty()) out_.Directive(d_.keep);
    if (n.kind == ForKind::kParallel) out_.Directive(d_.parallel);
    out_.Open("for (", type, " ", name, " = 0; ", name, " < ", extent, "; ++", name, ")");
    RETURN_IF_ERROR(Emit(n.body));
    out_.Close();
    return absl::OkStatus();
  }

  Status EmitAlloc(ir::Buffer b) {
    const std::string_view type = printer_.MemoryType(b->dtype);
    if (b->scope == ir::Scope::kGlobal) {
      if (d_.HasKernels()) return Unsupported(Cat("global memory ", b->name, " of a kernel"));
      printer_.Begin({b->shape[0]});
      const std::string size = printer_.Print(b->shape[0]);
      const std::string& n = printer_.NameOf(b);
      out_.Line("if ((", n, " = (", type, "*)malloc(sizeof(", type, ") * (size_t)(", size,
                "))) == 0) { status = -1; goto done; }");
      return absl::OkStatus();
    }
    if (!ir::IsInt(b->shape[0])) {
      return InvalidArgument("function ", f_.name, ": the size of ", b->name, " (", Name(b->scope),
                             ") must be constant");
    }
    const bool shared = b->scope == ir::Scope::kShared;
    if (shared && d_.shared.empty()) return Unsupported(Cat("shared memory ", b->name));
    const std::string n = shared ? Cat("s", shared_count_++) : Cat("r", local_count_++);
    printer_.NameBuffer(b, n);
    if (shared && dynamic_shared_ >= 0) {
      out_.Line(type, "* const ", n, " = (", type, "*)(cinn_shared + ", dynamic_shared_, ");");
      dynamic_shared_ += ir::SharedBytesOf(b);
      return absl::OkStatus();
    }
    out_.Line(shared ? Cat(d_.shared, " ") : "", type, " ", n, "[", b->shape[0]->int_value, "];");
    return absl::OkStatus();
  }

  const ir::Func& f_;
  const Dialect& d_;
  TextBuilder out_;
  ExprPrinter printer_;
  const KernelFacts facts_;
  int64_t dynamic_shared_ = -1;  // the next free byte; negative: arrays of their own
  int rests_ = 0;                // branches around that another goes before
  int loop_count_ = 0, let_count_ = 0, shared_count_ = 0, local_count_ = 0, heap_count_ = 0;
};

}  // namespace

StatusOr<std::string> EmitFunc(const ir::Func& f, const Dialect& d, std::string_view name) {
  return FuncEmitter(f, d).Emit(name);
}

std::string JoinSource(const Dialect& d, const std::vector<std::string>& functions) {
  std::string body;
  for (const std::string& f : functions) body += Cat("\n", f);
  return Cat(d.header, HelpersFor(d, body), body);
}

StatusOr<std::string> EmitModule(const ir::Module& m, const Dialect& d) {
  std::vector<std::string> texts;
  std::string prototypes;
  for (const ir::Func& f : m.funcs) {
    if (d.HasKernels() && f.kind != ir::FuncKind::kKernel) continue;
    ASSIGN_OR_RETURN(std::string text, EmitFunc(f, d, f.name));
    if (!d.HasKernels()) prototypes += Cat(text.substr(0, text.find(" {\n")), ";\n");
    texts.push_back(std::move(text));
  }
  if (!prototypes.empty()) texts.insert(texts.begin(), std::move(prototypes));
  return JoinSource(d, texts);
}

}  // namespace cinn_like::backends
