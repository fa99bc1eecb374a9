#include "backends/c_entry.h"

namespace cinn_like::backends {
namespace {

std::string Number(int64_t v) { return Cat(v, "LL"); }

// Sizes of a call may be anything until they are checked, so that this wraps.
std::string TextOf(const Dim& dim) {
  std::vector<std::string> stack;
  for (const DimStep& step : dim) {
    if (step.op == DimOp::kConst || step.op == DimOp::kSymbol) {
      stack.push_back(step.op == DimOp::kConst ? Number(step.value) : Cat("n", step.value));
      continue;
    }
    const std::string right = std::move(stack.back());
    stack.pop_back();
    std::string& left = stack.back();
    if (step.op == DimOp::kFloorDiv || step.op == DimOp::kFloorMod) {
      left = Cat(step.op == DimOp::kFloorDiv ? "cinn_floor_div(" : "cinn_floor_mod(", left, ", ", right, ")");
    } else {
      const char* sign = step.op == DimOp::kAdd ? " + " : step.op == DimOp::kSub ? " - " : " * ";
      left = Cat("(int64_t)((uint64_t)", left, sign, "(uint64_t)", right, ")");
    }
  }
  return stack.back();
}

class Printer {
 public:
  Printer(const CEntry& e, TextBuilder& out) : e_(e), spec_(e.spec), out_(out) {}

  void Print(const std::function<std::string(size_t)>& pointer_type) {
    int args = 0, memories = 0;
    for (const ArgInfo& a : spec_.args) {
      args += TakesArgument(a) ? 1 : 0;
      memories += IsMemory(a) ? 1 : 0;
    }
    out_.Open(SignatureOf(e_));
    out_.Line("int32_t status = 0;");
    if (memories > 0) out_.Line("cinn_memory m[", memories, "];");
    for (size_t s = 0; s < spec_.symbols.size(); ++s) out_.Line("int64_t n", s, " = 0;");
    if (!e_.state.empty()) {
      const std::string_view is_const = e_.is_prepare ? "" : "const ";
      out_.Line(is_const, e_.state, "* const state = (", is_const, e_.state, "*)self;");
    } else {
      out_.Line("(void)self;");
    }
    if (e_.is_prepare) out_.Line("void* slots[", e_.slots, "] = {0};");
    Check(Cat("cinn_check_call(\"", spec_.function, "\", args, num_args, ", args, ", env)"));
    if (!e_.state.empty()) {
      std::string wrong = "state == 0";
      for (int i = 0; i < e_.slots && !e_.is_prepare; ++i) wrong += Cat(" || state->prepared[", i, "] == 0");
      out_.Line("if (", wrong, ") return cinn_fail(-9, \"", spec_.function, "\", \"",
                e_.is_prepare ? "no self" : "not prepared", "\");");
    }
    for (size_t s = 0; s < spec_.symbols.size(); ++s) PrintSymbol(s);
    int inputs = 0, at = 0, position = 0;
    std::vector<std::string> data(spec_.args.size());
    for (size_t i = 0; i < spec_.args.size(); ++i) {
      const ArgInfo& a = spec_.args[i];
      if (IsMemory(a)) {
        PrintTensor(a, position, at);
        data[i] = Cat("m[", at++, "].data");
        inputs += a.role == ArgRole::kInput ? 1 : 0;
      } else if (a.role == ArgRole::kResult) {
        PrintSlot(a);
        data[i] = Cat("slots[", a.index, "]");
      } else if (a.role == ArgRole::kPrepared) {
        data[i] = Cat("state->prepared[", a.index, "]");
      }
      position += TakesArgument(a) ? 1 : 0;
    }
    if (inputs < memories) Check(Cat("cinn_check_apart(\"", spec_.function, "\", m, ", inputs, ", ", memories, ")"));
    for (size_t i = 0; i < spec_.args.size(); ++i) {
      const std::string type = data[i].empty() ? "" : pointer_type(i);
      if (!type.empty()) out_.Line(type, " const p", i, " = (", type, ")", data[i], ";");
    }
  }

 private:
  bool TakesArgument(const ArgInfo& a) const {
    return a.role != ArgRole::kPrepared && !(e_.is_prepare && a.role == ArgRole::kResult);
  }
  // Whether its memory is the caller's.
  bool IsMemory(const ArgInfo& a) const {
    return a.role == ArgRole::kInput || (a.role == ArgRole::kResult && !e_.is_prepare);
  }

  // Of a call with the code of a failure.
  void Check(const std::string& call) { out_.Line("if ((status = ", call, ") != 0) ", Leave()); }
  // Before there are slots to free nothing is left behind.
  std::string Leave() const { return e_.is_prepare ? "goto done;" : "return status;"; }

  std::string What(const ArgInfo& a) const {
    const std::string_view kind = a.role == ArgRole::kResult ? "result" : "argument";
    return Cat("\"", spec_.function, ": ", kind, " '", a.name, "': expected ", DescribeType(a, spec_.symbols), "\"");
  }

  void PrintSymbol(size_t s) {
    const SymbolSpec& n = spec_.symbols[s];
    const SymbolSource source = SourceOf(spec_, static_cast<int>(s));
    const std::string divisor = n.divisor == 1 ? "" : Cat(", a multiple of ", n.divisor);
    Check(Cat("cinn_symbol(&args[", source.arg, "], \"", spec_.function, ": expected ", n.name, " in ", n.min, "..",
              n.max, divisor, "\", ", source.dim, ", ", Number(n.min), ", ", Number(n.max), ", ", Number(n.divisor),
              ", &n", s, ")"));
  }

  // Declares the shape, and the strides where there are any; gives their names.
  std::pair<std::string, std::string> PrintShape(const ArgInfo& a) {
    const auto list = [&](std::string_view name, const std::vector<Dim>& dims) -> std::string {
      if (dims.empty()) return "0";
      std::string text;
      for (const Dim& d : dims) text += Cat(text.empty() ? "" : ", ", TextOf(d));
      out_.Line("const int64_t ", name, "[] = {", text, "};");
      return std::string(name);
    };
    std::string shape = list("shape", a.shape);
    return {std::move(shape), list("strides", a.strides)};
  }

  static std::string TypeOf(const ArgInfo& a) {
    return Cat(int{InfoOf(a.dtype).dlpack_code}, ", ", InfoOf(a.dtype).bits, ", ", a.shape.size());
  }

  void PrintTensor(const ArgInfo& a, int position, int at) {
    out_.OpenScope();
    const auto [shape, strides] = PrintShape(a);
    const bool gives = a.role == ArgRole::kResult;
    Check(Cat(gives ? "cinn_give" : "cinn_take", "(&args[", position, "], ", What(a), ", ", TypeOf(a), ", ", shape,
              ", ", strides, gives ? Cat(", env, ", a.index) : "", ", &m[", at, "])"));
    out_.Close();
  }

  void PrintSlot(const ArgInfo& a) {
    out_.OpenScope();
    const std::string shape = PrintShape(a).first;
    out_.Line("const size_t bytes = cinn_bytes(", InfoOf(a.dtype).bits, ", ", a.shape.size(), ", ", shape, ", 0);");
    out_.Line("slots[", a.index, "] = bytes == 0 ? 0 : malloc(bytes);");
    out_.Open("if (slots[", a.index, "] == 0)");
    out_.Line("status = cinn_fail(-8, ", What(a), ", \"memory\");");
    out_.Line("goto done;");
    out_.Close();
    out_.Close();
  }

  const CEntry& e_;
  const ArgSpec& spec_;
  TextBuilder& out_;
};

}  // namespace

std::string SignatureOf(const CEntry& entry) {
  return Cat("int32_t ", entry.spec.function,
             "(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env)");
}

void OpenEntry(const CEntry& entry, const std::function<std::string(size_t)>& pointer_type, TextBuilder& out) {
  Printer(entry, out).Print(pointer_type);
}

void PrintSuccess(const CEntry& entry, TextBuilder& out) {
  if (!entry.is_prepare) return;
  for (int i = 0; i < entry.slots; ++i) {
    out.Line("free(state->prepared[", i, "]);");
    out.Line("state->prepared[", i, "] = slots[", i, "];");
    out.Line("slots[", i, "] = 0;");
  }
}

void PrintCleanup(const CEntry& entry, TextBuilder& out) {
  for (int i = 0; i < (entry.is_prepare ? entry.slots : 0); ++i) out.Line("free(slots[", i, "]);");
}

}  // namespace cinn_like::backends
