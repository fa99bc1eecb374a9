#include "backends/expr_printer.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "absl/strings/str_replace.h"
#include "ir/linear.h"

namespace cinn_like::backends {
namespace {
using ir::Expr;
using ir::ExprOp;

bool IsLeaf(Expr e) { return e->op == ExprOp::kInt || e->op == ExprOp::kFloat || e->op == ExprOp::kVar; }

std::string Hex(uint64_t v, std::string_view suffix) {
  char s[32];
  snprintf(s, sizeof(s), "0x%llx", static_cast<unsigned long long>(v));
  return Cat(s, suffix);
}

// The shortest decimal that reads back as the same value.
std::string Decimal(double v, bool is_f32) {
  char s[40];
  for (int digits = is_f32 ? 6 : 15; digits <= (is_f32 ? 9 : 17); ++digits) {
    snprintf(s, sizeof(s), "%.*g", digits, v);
    if (is_f32 ? strtof(s, nullptr) == static_cast<float>(v) : strtod(s, nullptr) == v) break;
  }
  std::string r = s;
  if (r.find_first_of(".e") == r.npos) r += ".0";
  return is_f32 ? r + "f" : r;
}

// How tightly operand `k` of a spelling must bind to stand without parentheses.
int Needed(int precedence, size_t k) {
  switch (precedence) {
    case kTernary:
      return kEquality;
    case kLogicalOr:
      return k == 0 ? kLogicalOr : kEquality;
    case kLogicalAnd:
      return k == 0 ? kLogicalAnd : kEquality;
    case kEquality:
    case kRelation:
      return kSum;
    case kSum:
    case kProduct:
      return k == 0 ? precedence : precedence + 1;
    default:
      return kAtom;
  }
}

}  // namespace

std::string ExprPrinter::Paren(const std::string& text, int precedence, int needed) {
  return precedence >= needed ? text : Cat("(", text, ")");
}

void ExprPrinter::Fail(std::string_view what, Expr e) {
  if (status_.ok()) status_ = Unimplemented("no ", d_.name, " text for ", what, " in ", ir::Print(e));
}

void ExprPrinter::NameLet(Expr var, std::string name, Expr value) {
  NameVar(var, std::move(name));
  if (IsData(value)) {
    data_vars_.insert(var);
  } else if (IsInt(var->type.dtype) && var->type.lanes == 1) {
    constexpr int64_t kUnknown = ir::Analyzer::kUnknown;
    analyzer_.BindSymbol({var, -kUnknown, kUnknown, std::max<int64_t>(1, analyzer_.KnownDivisor(value))});
  }
}

void ExprPrinter::Begin(const std::vector<Expr>& roots) {
  uses_.clear();
  memo_.clear();
  words_.clear();
  int lanes = 1;
  for (Expr r : roots) lanes = std::max(lanes, r->type.lanes);
  absl::flat_hash_set<Expr> seen;
  std::function<void(Expr, int)> count = [&](Expr e, int user_lanes) {
    uses_[e] += user_lanes > 1 && e->type.lanes == 1 ? 2 : 1;
    if (!seen.insert(e).second) return;
    if (ValueType(e->type.dtype).empty()) Fail(Name(e->type.dtype), e);
    if (e->op == ExprOp::kSelect) CountAhead(e);
    for (Expr a : e->args) count(a, e->type.lanes);
  };
  for (Expr r : roots) count(r, lanes);
}

// `inside ? p[inside ? i : last] : 0`: the load may be read whatever the condition says, and then doesn't wait for it.
void ExprPrinter::CountAhead(Expr select) {
  for (size_t k : {1, 2}) {
    ir::Visit(select->args[k], [&](Expr load) {
      if (load->op != ExprOp::kLoad || load->has_mask) return true;
      ir::Visit(load->args[0], [&](Expr e) {
        if (e->op == ExprOp::kSelect && e->args[0] == select->args[0]) uses_[load] = 2;
        return true;
      });
      return true;
    });
  }
}

bool ExprPrinter::IsData(Expr e) {
  auto it = is_data_.find(e);
  if (it != is_data_.end()) return it->second;
  bool r = e->op == ExprOp::kLoad || data_vars_.contains(e) || IsFloat(e->type.dtype);
  for (Expr a : e->args) r |= IsData(a);
  return is_data_[e] = r;
}

// ---- expressions ----

ExprPrinter::Piece ExprPrinter::Lane(Expr e, int lane) {
  if (e->op == ExprOp::kBroadcast) e = e->args[0];
  if (e->type.lanes == 1) lane = 0;
  auto it = memo_.find({e, lane});
  if (it != memo_.end()) return it->second;
  Piece p = Compute(e, lane);
  // Every thread takes part in a shuffle: it must not stand behind a `||` or in an arm of `?:`.
  // The lane's number beside a number needs no name.
  const bool is_short = lane == kEachLane && e->op == ExprOp::kRamp && IsLeaf(e->args[0]) && IsLeaf(e->args[1]);
  if ((uses_[e] > 1 && !IsLeaf(e) && !is_short) || e->op == ExprOp::kShuffleXor) p = Temporary(e->type.dtype, p);
  memo_[{e, lane}] = p;
  return p;
}

ExprPrinter::Piece ExprPrinter::Temporary(DType t, const Piece& value) {
  std::string name = Cat("t", next_temporary_++);
  out_.Line("const ", ValueType(t), " ", name, " = ", value.text, ";");
  return {std::move(name)};
}

ExprPrinter::Piece ExprPrinter::Compute(Expr e, int lane) {
  switch (e->op) {
    case ExprOp::kInt:
    case ExprOp::kFloat:
      return Constant(e);
    case ExprOp::kVar: {
      auto it = var_names_.find(e);
      if (it == var_names_.end()) {
        Fail(Cat("the unbound variable ", e->name), e);
        return {e->name};
      }
      if (e->type.lanes == 1) return {it->second};
      if (!d_.HasLaneLoops()) return {Cat(it->second, "_", lane)};
      return {Cat(it->second, "[", lane == kEachLane ? each_lane_ : Cat(lane), "]")};
    }
    case ExprOp::kLoad:
      return LoadLane(e, lane);
    case ExprOp::kAddress:
      return {Cat("(", ValueType(DType::kU64), ")&", Element(e->buffer, Lane(e->args[0], 0)).text), kUnary};
    case ExprOp::kCast:
      return Cast(e->type.dtype, e->args[0]->type.dtype, Lane(e->args[0], lane));
    case ExprOp::kRamp: {
      const Expr base = e->args[0], stride = e->args[1];
      const DType t = e->type.dtype;
      if (lane == 0) return Lane(base, 0);
      if (lane == kEachLane) {
        const Piece s = Lane(stride, 0);
        const std::string steps =
            ir::IsInt(stride, 1) ? each_lane_ : Cat(each_lane_, " * ", Paren(s.text, s.precedence, kUnary));
        if (ir::IsInt(base, 0)) return {steps, ir::IsInt(stride, 1) ? kAtom : kProduct};
        const Piece b = Lane(base, 0);
        return {Cat(Paren(b.text, b.precedence, kSum), " + ", steps), kSum};
      }
      if (ir::IsInt(stride)) {
        const WrapInt offset = WrapInt(stride->int_value) * lane;
        if (ir::IsInt(base)) return AddOffset({}, t, base->int_value + offset);
        return AddOffset(Lane(base, 0), t, offset);
      }
      const Piece s = Lane(stride, 0), b = Lane(base, 0);
      return {Cat(Paren(b.text, b.precedence, kSum), " + ", Paren(s.text, s.precedence, kProduct), " * ",
                  AddOffset({}, t, lane).text),
              kSum};
    }
    case ExprOp::kLaneLast:
      return Lane(e->args[0], e->args[0]->type.lanes - 1);
    case ExprOp::kLaneShift: {
      const int n = ir::LanesMoved(e).value_or(0);
      if (lane != kEachLane) return Lane(e->args[0], lane < n ? lane : lane - n);
      // The text of another lane, which shares none with this one's.
      const std::string here = each_lane_;
      auto memo = std::exchange(memo_, {});
      each_lane_ = Cat("(", here, " < ", n, " ? ", here, " : ", here, " - ", n, ")");
      Piece p = Lane(e->args[0], kEachLane);
      each_lane_ = here;
      memo_ = std::move(memo);
      return p;
    }
    case ExprOp::kLaneAdd:
    case ExprOp::kLaneMul:
    case ExprOp::kLaneMin:
    case ExprOp::kLaneMax:
      return ReduceLanes(e);
    default:
      return Operator(e, lane);
  }
}

// base + offset, or the offset alone if base is empty.
ExprPrinter::Piece ExprPrinter::AddOffset(const Piece& base, DType t, int64_t offset) const {
  const std::string text = Cat(offset, InfoOf(t).bits == 64 ? d_.long_suffix : "");
  if (base.text.empty()) return {text, offset < 0 ? kUnary : kAtom};
  return {Cat(Paren(base.text, base.precedence, kSum), " + ", text), kSum};
}

ExprPrinter::Piece ExprPrinter::Constant(Expr e) const {
  const DType t = e->type.dtype;
  const int64_t v = e->int_value;
  const double f = e->float_value;
  switch (t) {
    case DType::kBool:
      return {v != 0 ? "true" : "false"};
    case DType::kI32:
    case DType::kI64: {
      const bool wide = t == DType::kI64;
      const std::string_view suffix = wide ? d_.long_suffix : "";
      if (v == (wide ? INT64_MIN : INT32_MIN)) return {Cat("(", v + 1, suffix, " - 1)")};
      return {Cat(v, suffix), v < 0 ? kUnary : kAtom};
    }
    case DType::kU32:
      return {Cat(v, "u")};
    case DType::kU64:
      return {Cat(static_cast<uint64_t>(v), "U", d_.long_suffix)};
    case DType::kF32:
      if (!std::isfinite(f))
        return {Cat("cinn_f32_bits(", Hex(std::bit_cast<uint32_t>(static_cast<float>(f)), "u"), ")")};
      return {Decimal(f, true), std::signbit(f) ? kUnary : kAtom};
    case DType::kF64:
      if (!std::isfinite(f))
        return {Cat("cinn_f64_bits(", Hex(std::bit_cast<uint64_t>(f), Cat("U", d_.long_suffix)), ")")};
      return {Decimal(f, false), std::signbit(f) ? kUnary : kAtom};
    case DType::kBF16:
      return {Cat("(unsigned short)", Hex(std::bit_cast<uint32_t>(static_cast<float>(f)) >> 16, "")), kUnary};
    case DType::kF16:
      return {Cat("(unsigned short)", Hex(std::bit_cast<uint16_t>(static_cast<_Float16>(f)), "")), kUnary};
    default:
      return {Cat("(", ValueType(t), ")", v), kUnary};
  }
}

ExprPrinter::Piece ExprPrinter::Cast(DType to, DType from, const Piece& v) const {
  if (to == from) return v;
  if (IsHalf(from)) return Cast(to, DType::kF32, {Cat("cinn_f32_", Name(from), "(", v.text, ")")});
  if (IsHalf(to)) {
    if (IsFloat(from)) return {Cat("cinn_", Name(to), "_", Name(from), "(", v.text, ")")};
    return {Cat("cinn_", Name(to), "_f32(", Cast(DType::kF32, from, v).text, ")")};
  }
  if (to == DType::kBool) return {Cat(Paren(v.text, v.precedence, kSum), " != 0"), kEquality};
  if (IsFloat(from) && IsInt(to)) {
    // As eager PyTorch: a narrow integer is the low bits of a wider one.
    const DType wide = to == DType::kU8 ? DType::kI64 : to == DType::kI8 || to == DType::kI16 ? DType::kI32 : to;
    return Cast(to, wide, {Cat("cinn_", Name(wide), "_", Name(from), "(", v.text, ")")});
  }
  return {Cat("(", ValueType(to), ")", Paren(v.text, v.precedence, kUnary)), kUnary};
}

const Spelling* ExprPrinter::SpellingOf(Expr e, ExprOp op, DType on) {
  // What C's own operators leave out where the first operand decides is a load that would wait for it.
  if (op == ExprOp::kOr || op == ExprOp::kAnd) {
    bool loads = false;
    ir::VisitLoads(e->args[1], [&](Expr) { loads = true; });
    if (loads) op = op == ExprOp::kOr ? ExprOp::kBitOr : ExprOp::kBitAnd;
  }
  // Index arithmetic does not overflow; narrow types do, after C promoted them; and so may the numbers of a tensor.
  if (IsInt(on) && (InfoOf(on).bits < 32 || IsData(e))) {
    if (const Spelling* s = d_.FindWrapping(op, on)) return s;
  }
  const Spelling* s = d_.Find(op, on);
  if (s == nullptr) Fail(Cat(ir::RowOf(op)->text, " of ", Name(on)), e);
  return s;
}

ExprPrinter::Piece ExprPrinter::Fill(const Spelling& s, const std::vector<Piece>& args, DType on) const {
  std::string r;
  const std::string_view text = s.text;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      r += text[i];
      continue;
    }
    const char code = text[++i];
    if (code == 'T')
      r += ValueType(on);
    else if (code == 't')
      r += Name(on);
    else if (code == 'f')
      r += on == DType::kF32 ? d_.f32_suffix : "";
    else if (code == 'U')
      r += ValueType(InfoOf(on).bits == 64 ? DType::kU64 : DType::kU32);
    else {
      const size_t k = static_cast<size_t>(code - '0');
      const char before = i < 2 ? '\0' : text[i - 2];
      const char after = i + 1 < text.size() ? text[i + 1] : '\0';
      int needed = Needed(s.precedence, k);
      if (before == ')')
        needed = kUnary;  // a cast
      else if ((before == '(' || (i >= 3 && text[i - 3] == ',')) && (after == ')' || after == ','))
        needed = 0;
      else if (s.precedence == kAtom || s.precedence == kUnary)
        needed = kAtom;
      r += Paren(args[k].text, args[k].precedence, needed);
    }
  }
  return {std::move(r), s.precedence};
}

ExprPrinter::Piece ExprPrinter::Operator(Expr e, int lane) {
  const DType on = e->args[e->op == ExprOp::kSelect ? 1 : 0]->type.dtype;
  const Spelling* s = SpellingOf(e, e->op, on);
  if (s == nullptr) return {"0"};
  std::vector<Piece> args;
  for (Expr a : e->args) args.push_back(Lane(a, lane));
  return Fill(*s, args, on);
}

ExprPrinter::Piece ExprPrinter::ReduceLanes(Expr e) {
  const ExprOp op = e->op == ExprOp::kLaneAdd   ? ExprOp::kAdd
                    : e->op == ExprOp::kLaneMul ? ExprOp::kMul
                    : e->op == ExprOp::kLaneMin ? ExprOp::kMin
                                                : ExprOp::kMax;
  const DType on = e->type.dtype;
  const Spelling* s = SpellingOf(e, op, on);
  if (s == nullptr) return {"0"};
  std::vector<Piece> v;
  for (int i = 0; i < e->args[0]->type.lanes; ++i) v.push_back(Lane(e->args[0], i));
  // A tree: short chains, and the smaller rounding error.
  while (v.size() > 1) {
    const size_t half = v.size() / 2;
    for (size_t i = 0; i < half; ++i) v[i] = Fill(*s, {v[2 * i], v[2 * i + 1]}, on);
    if (v.size() % 2 == 1) v[half] = v.back();
    v.resize(v.size() - half);
  }
  return v[0];
}

void ExprPrinter::OpenLaneLoop(int lanes) {
  out_.Open(d_.lane_loop, " for (int ", kLane, " = 0; ", kLane, " < ", lanes, "; ++", kLane, ")");
}

void ExprPrinter::PrintLanes(std::string_view name, Expr value) {
  out_.Line(ValueType(value->type.dtype), " ", name, "[", value->type.lanes, "];");
  OpenLaneLoop(value->type.lanes);
  const std::string text = Lane(value, kEachLane).text;
  out_.Line(name, "[", kLane, "] = ", text, ";");
  out_.Close();
}

}  // namespace cinn_like::backends
