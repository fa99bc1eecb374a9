// Printing. A subexpression that one statement uses twice is printed once, as `let $0 = ...` before the statement, so
// that a DAG prints in linear size; `$` names belong to that statement alone.
#include <charconv>
#include <cmath>

#include "ir/stmt.h"

namespace cinn_like::ir {
namespace {

constexpr int kSharedSize = 8;  // smaller subexpressions are repeated: indices stay readable

std::string PrintFloat(double v, DType t) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buffer[64];
  auto r = t == DType::kF32 ? std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(v))
                            : std::to_chars(buffer, buffer + sizeof buffer, v);
  std::string s(buffer, r.ptr);
  if (s.find_first_of(".en") == std::string::npos) s += ".0";
  return s;
}

// " @hint(unroll=4, vectorize=off)"
std::string Hints(const LoopHints& h) {
  if (h == LoopHints()) return "";
  const std::string unroll = h.unroll == 0 ? "" : Cat("unroll=", h.unroll);
  return Cat(" @hint(", unroll, h.scalar ? Cat(unroll.empty() ? "" : ", ", "vectorize=off") : "", ")");
}

class Printer {
 public:
  // Prints the lets of the subexpressions that `roots` share, one a line.
  std::string Share(const std::vector<Expr>& roots, const std::string& indent) {
    absl::flat_hash_map<Expr, int> uses;
    std::vector<Expr> order;  // children first
    std::function<void(Expr)> go = [&](Expr e) {
      if (e->size < kSharedSize || ++uses[e] > 1) return;
      for (Expr a : e->args) go(a);
      order.push_back(e);
    };
    for (Expr e : roots) {
      if (e != nullptr) go(e);
    }
    names_.clear();
    std::string out;
    for (Expr e : order) {
      if (uses[e] < 2) continue;
      const std::string name = Cat("$", names_.size());
      out += Cat(indent, "let ", name, " = ", Expression(e, 0), "\n");
      names_.emplace(e, name);
    }
    return out;
  }

  std::string List(absl::Span<const Expr> v) {
    std::string s;
    Write(v, s);
    return s;
  }
  std::string Expression(Expr e, int min_precedence) {
    std::string s;
    Write(e, min_precedence, s);
    return s;
  }

  // Append.
  void Write(absl::Span<const Expr> v, std::string& out) {
    for (size_t i = 0; i < v.size(); ++i) {
      if (i > 0) out += ", ";
      Write(v[i], 0, out);
    }
  }
  void Write(Expr e, int min_precedence, std::string& out) {
    if (e->size >= kSharedSize) {
      if (auto shared = names_.find(e); shared != names_.end()) {
        out += shared->second;
        return;
      }
    }
    const auto add = [&](const auto&... parts) { ((out += parts), ...); };
    const auto type = Name(e->type.dtype);
    const absl::Span<const Expr> args = e->args;
    switch (e->op) {
      case ExprOp::kInt:
        if (e->type.dtype == DType::kBool) return add(e->int_value != 0 ? "true" : "false");
        if (e->type.dtype == DType::kI64) return add(std::to_string(e->int_value));
        return add(type, "(", std::to_string(e->int_value), ")");
      case ExprOp::kFloat: {
        const std::string s = PrintFloat(e->float_value, e->type.dtype);
        return e->type.dtype == DType::kF32 ? add(s) : add(type, "(", s, ")");
      }
      case ExprOp::kVar:
        return add(e->name);
      case ExprOp::kLoad:
        add(e->buffer->name, "[");
        Write(args.first(args.size() - e->has_mask), out);
        if (e->has_mask) {
          add("; ");
          Write(args.back(), 0, out);
        }
        return add("]");
      case ExprOp::kAddress:
        add("&", e->buffer->name, "[");
        Write(args, out);
        return add("]");
      case ExprOp::kCast:
        add(type, "(");
        Write(args, out);
        return add(")");
      case ExprOp::kRamp:
      case ExprOp::kBroadcast:
        add(e->op == ExprOp::kRamp ? "ramp(" : "broadcast(");
        Write(args, out);
        return add(", ", std::to_string(e->type.lanes), ")");
      case ExprOp::kChecked:
        add("checked(\"", e->name, "\", ");
        Write(args, out);
        return add(")");
      default:
        break;
    }
    const OpRow& row = *RowOf(e->op);
    if (row.precedence == 0) {
      add(row.text, "(");
      Write(args, out);
      return add(")");
    }
    const bool nested = row.precedence < min_precedence;
    if (nested) add("(");
    Write(args[0], row.precedence, out);
    add(" ", row.text, " ");
    Write(args[1], row.precedence + 1, out);
    if (nested) add(")");
  }

  std::string Statement(const Stmt& s, int depth) {
    const std::string in(depth * 2, ' ');
    auto body = [&](const Stmt& x) { return Cat("{\n", Statement(x, depth + 1), in, "}"); };
    return Match(
        s,
        [&](const Seq& n) {
          std::string out;
          for (const Stmt& x : n.stmts) out += Statement(x, depth);
          return out;
        },
        [&](const For& n) {
          std::string head = Share({n.extent}, in);
          head += Cat(in, "for ", n.var->name, n.var->type == kIndexType ? "" : ": " + ir::Print(n.var->type),
                      " in 0..", Expression(n.extent, 0), n.kind == ForKind::kSerial ? "" : Cat(" @", Name(n.kind)),
                      Hints(n.kind.hints), " ");
          return head + body(n.body) + "\n";
        },
        [&](const If& n) {
          std::string head = Share({n.cond}, in);
          head += Cat(in, "if ", Expression(n.cond, 0), " ");
          head += body(n.then);
          if (n.otherwise != nullptr) head += " else " + body(n.otherwise);
          return head + "\n";
        },
        [&](const While& n) {
          std::string head = Share({n.cond}, in);
          head += Cat(in, "while ", Expression(n.cond, 0), " ");  // names are the body's behind it
          return head + body(n.body) + "\n";
        },
        [&](const Prefetch& n) {
          std::string head = Share({n.value}, in);
          return head + Cat(in, "prefetch ", Expression(n.value, 0), "\n");
        },
        [&](const Let& n) {
          std::string head = Share({n.value}, in);
          return head + Cat(in, "let ", n.var->name, " = ", Expression(n.value, 0), "\n");
        },
        [&](const Alloc& n) { return Cat(in, "alloc ", Declare(*n.buffer), " @", Name(n.buffer->scope), "\n"); },
        [&](const Store& n) {
          std::vector<Expr> roots = n.indices;
          roots.push_back(n.value);
          roots.push_back(n.mask);
          std::string head = Share(roots, in);
          head += Cat(in, n.buffer->name, "[", List(n.indices), n.mask == nullptr ? "" : "; " + Expression(n.mask, 0),
                      "] = ", Expression(n.value, 0), "\n");
          return head;
        },
        [&](const Block& n) {
          std::vector<Expr> roots;
          for (const BlockIter& i : n.iters) {
            roots.push_back(i.extent);
            roots.push_back(i.binding);
          }
          roots.push_back(n.predicate);
          std::string head = Share(roots, in) + Cat(in, "block ", n.name, "(");
          bool first = true;
          for (const BlockIter& i : n.iters) {
            head += Cat(first ? "" : ", ", i.var->name, i.kind == IterKind::kData ? " in" : " reduce", " 0..",
                        Expression(i.extent, 0), " = ", Expression(i.binding, 0));
            first = false;
          }
          head += ") ";
          if (n.predicate != nullptr) head += "if " + Expression(n.predicate, 0) + " ";
          if (n.init != nullptr) head += "init " + body(n.init) + " ";
          return head + body(n.body) + "\n";
        },
        [&](const Barrier& n) -> std::string {
          switch (n.scope) {
            case BarrierScope::kBlock:
              return in + "barrier\n";
            case BarrierScope::kBeginCopies:
              return in + "begin copies\n";
            case BarrierScope::kCommitCopies:
              return in + "commit copies\n";
            default:
              return Cat(in, "await copies ", n.pending, "\n");
          }
        },
        [&](const Launch& n) {
          std::vector<Expr> roots = n.grid;
          roots.insert(roots.end(), n.block.begin(), n.block.end());
          roots.push_back(n.shared_bytes);
          roots.insert(roots.end(), n.args.begin(), n.args.end());
          for (const TensorMap& m : n.maps) roots.insert(roots.end(), m.extents.begin(), m.extents.end());
          std::string head = Share(roots, in), maps;
          for (const TensorMap& m : n.maps) {
            maps += Cat(" map(", Expression(m.address, 0), ", [", List(m.extents), "], [", List(m.strides), "], [",
                        List(m.box), "])");
          }
          return head + Cat(in, "launch @", n.kernel, " grid(", List(n.grid), ") block(", List(n.block), ") ",
                            n.cluster == nullptr ? "" : Cat("cluster ", Expression(n.cluster, 0), " "), "shared ",
                            Expression(n.shared_bytes, 0), " (", List(n.args), ")", maps, "\n");
        },
        [&](const Call& n) {
          std::string head = Share(n.args, in);
          if (n.IsOfFunction()) return head + Cat(in, "call \"", n.text, "\"", Operands(n), "\n");
          std::string text = head + Cat(in, "call ", n.is_runtime ? "" : "@", n.callee, "(");
          if (!n.text.empty()) text += Cat("\"", n.text, n.args.empty() ? "\"" : "\", ");
          text += List(n.args) + ")";
          if (n.meaning != nullptr) text += " computes " + body(n.meaning);
          return text + "\n";
        });
  }

  // "(x, &t[0] as f32[n, 4], n) -> (y)"
  std::string Operands(const Call& call) {
    std::string in, out;
    ForEachOperand(call, [&](const Call::Operand& o, absl::Span<const Expr> args) {
      std::string& to = o.is_output ? out : in;
      if (!to.empty()) to += ", ";
      if (const Buffer b = WholeOf(o, args)) {
        to += b->name;
        return;
      }
      to += Expression(args[0], 0);
      if (!o.is_tensor) return;
      to += Cat(" as ", Name(o.dtype), "[", List(args.subspan(1, o.rank)), "]");
      if (o.has_strides) to += Cat(" strides [", List(args.subspan(1 + o.rank)), "]");
    });
    return Cat("(", in, ")", out.empty() ? "" : Cat(" -> (", out, ")"));
  }

  std::string Declare(const BufferNode& b) {
    names_.clear();
    std::string s = Cat(b.name, ": ", Name(b.dtype), "[", List(b.shape), "]");
    if (!b.strides.empty()) s += Cat(" strides [", List(b.strides), "]");
    if (b.alignment != 0) s += Cat(" align ", b.alignment);
    if (b.pitch_factor != 0) s += Cat(" pitch ", b.pitch_offset, " mod ", b.pitch_factor);
    return s;
  }

 private:
  absl::flat_hash_map<Expr, std::string> names_;
};

}  // namespace

std::string Print(Expr e) { return Printer().Expression(e, 0); }
std::string Print(const Stmt& s, int indent) { return Printer().Statement(s, indent); }

std::string Print(const Func& f) {
  Printer p;
  std::string s = Cat("func @", f.name, f.kind == FuncKind::kInternal ? "" : Cat(" ", Name(f.kind), " "),
                      f.device.empty() ? "" : Cat(f.device, " "), "(");
  bool first = true;
  for (const Param& q : f.params) {
    s += Cat(first ? "" : ", ", q.buffer != nullptr ? p.Declare(*q.buffer) : Cat(q.var->name, ": ", Print(q.var->type)),
             q.role == ParamRole::kInput ? "" : Cat(" ", Name(q.role)));
    first = false;
  }
  s += ") ";
  first = true;
  for (const SymbolFact& q : f.symbols) {
    s += Cat(first ? "where " : ", ", q.var->name, " in ", q.lo, "..", q.hi,
             q.divisor == 1 ? "" : Cat(" multiple ", q.divisor), q.hint == 0 ? "" : Cat(" hint ", q.hint));
    first = false;
  }
  if (!f.symbols.empty()) s += " ";
  return s + "{\n" + Printer().Statement(f.body, 1) + "}\n";
}

std::string Print(const Module& m) {
  std::string s;
  for (const Func& f : m.funcs) s += (s.empty() ? "" : "\n") + Print(f);
  return s;
}

}  // namespace cinn_like::ir
