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

bool IsContiguous(Expr index) { return index->op == ExprOp::kRamp && ir::IsInt(index->args[1], 1); }

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

std::string Paren(const std::string& text, int precedence, int needed) {
  return precedence >= needed ? text : Cat("(", text, ")");
}

constexpr std::string_view kFields[] = {".x", ".y", ".z", ".w"};
}  // namespace

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

// ---- memory ----

ExprPrinter::Piece ExprPrinter::Element(ir::Buffer b, const Piece& index) const {
  auto it = buffer_names_.find(b);
  return {Cat(it == buffer_names_.end() ? b->name : it->second, "[", PlaceOf(b, index).text, "]")};
}

ExprPrinter::Piece ExprPrinter::PlaceOf(ir::Buffer b, Piece index) const {
  const auto it = panels_.find(b);
  return it == panels_.end() ? index : Piece{Cat("cinn_panel<", it->second, ">(", index.text, ")")};
}

std::vector<std::string> ExprPrinter::Mask(Expr mask) {
  std::vector<std::string> r;
  if (mask == nullptr) return r;
  for (int i = 0; i < mask->type.lanes; ++i) {
    Piece p = Lane(mask, i);
    if (p.precedence != kAtom) p = memo_[{mask, i}] = Temporary(DType::kBool, p);
    r.push_back(p.text);
  }
  return r;
}

ExprPrinter::Piece ExprPrinter::LoadLane(Expr e, int lane) {
  const Expr index = e->args[0];
  const DType t = e->type.dtype;
  if (const Chunks c = ChunksOf(e->buffer, index); c.words != 0) return LaneOfWords(t, LoadWords(e, c), lane);
  Piece p = Element(e->buffer, Lane(index, lane));
  if (t == DType::kBool) p = {Cat(p.text, " != 0"), kEquality};
  if (Expr mask = ir::MaskOf(e)) {
    const Piece m = Lane(mask, lane);
    p = {Cat(Paren(m.text, m.precedence, kEquality), " ? ", Paren(p.text, p.precedence, kEquality), " : ",
             t == DType::kBool ? "false" : "0"),
         kTernary};
  }
  return p;
}

ExprPrinter::Chunks ExprPrinter::ChunksOf(ir::Buffer b, Expr index) {
  if (!d_.HasWords() || b->scope == ir::Scope::kLocal || !IsContiguous(index)) return {};
  const int64_t size = BytesOf(b->dtype), bytes = size * index->type.lanes;
  const int64_t start = b->scope == ir::Scope::kShared ? 16 : std::max<int64_t>(b->alignment, size);
  const int64_t alignment = Gcd(start, WrapInt(analyzer_.KnownDivisor(index->args[0])) * size);
  for (int words : {4, 2, 1}) {
    if (alignment % (words * 4) == 0 && bytes % (words * 4) == 0) return {words, static_cast<int>(bytes / (words * 4))};
  }
  return {};
}

namespace {
int Row(int words) { return words == 4 ? 2 : words - 1; }
}  // namespace

std::string ExprPrinter::Chunk(ir::Buffer b, Chunks c, const Piece& base, int chunk, bool is_const) const {
  const int64_t offset = static_cast<int64_t>(chunk) * c.words * 4 / BytesOf(b->dtype);
  const Piece index = PlaceOf(b, offset == 0 ? base : AddOffset(base, DType::kI32, offset));
  const std::string pointer = Cat(buffer_names_.at(b), " + ", Paren(index.text, index.precedence, kSum));
  if (is_const && !d_.stream_loads[0].empty() && streamed_.contains(b)) {
    return Fill({ExprOp::kLoad, 0, d_.stream_loads[Row(c.words)], kAtom}, {{pointer, kSum}}, b->dtype).text;
  }
  return Cat("*(", Space(b), is_const ? "const " : "", d_.word_types[Row(c.words)], "*)(", pointer, ")");
}

Expr ExprPrinter::PlaceOfQuad(const std::vector<const ir::Store*>& stores, Expr x) {
  const ir::Buffer b = stores[0]->buffer;
  ir::Context& c = analyzer_.context();
  constexpr size_t kThreads = 4;
  constexpr int kLanes = 2;
  if (d_.store_quad.empty() || stores.size() != kThreads || b->scope != ir::Scope::kGlobal || !IsHalf(b->dtype))
    return nullptr;
  if (std::max<int64_t>(b->alignment, BytesOf(b->dtype)) % 16 != 0) return nullptr;
  std::vector<ir::Linear> places;
  for (const ir::Store* s : stores) {
    const Expr index = s->indices[0], value = s->value;
    if (s->buffer != b || s->mask != nullptr || !IsContiguous(index) || index->type.lanes != kLanes ||
        value->op != ExprOp::kCast || value->type.lanes != kLanes || value->args[0]->type.dtype != DType::kF32)
      return nullptr;
    // All are computed before the first is written.
    bool reads = false;
    for (Expr e : {index, value}) ir::VisitLoads(e, [&](Expr load) { reads |= load->buffer == b; });
    if (reads) return nullptr;
    places.push_back(ir::ToLinear(c, index->args[0]));
  }
  const auto minus = [](const ir::Linear& a, const ir::Linear& b) { return ir::AddScaled(a, b, -1); };
  const ir::Linear step = minus(places[1], places[0]);
  for (size_t i = 1; i < kThreads; ++i) {
    const ir::Linear d = minus(places[i], places[i - 1]);
    if (!d.IsConst() || d.constant != step.constant || d.constant % 8 != 0) return nullptr;
  }
  // Where the eight of thread 0 would lie, then of this thread.
  ir::Linear place = places[0];
  const auto of_x = std::find_if(place.terms.begin(), place.terms.end(), [&](const auto& t) { return t.atom == x; });
  if (of_x == place.terms.end() || of_x->coef != kLanes) return nullptr;
  ir::RemoveTerm(place, x);
  const DType t = stores[0]->indices[0]->type.dtype;
  const Expr first = ir::FromLinear(c, place, t);
  if (ir::Uses(first, x) || analyzer_.KnownDivisor(first) % 8 != 0) return nullptr;
  ir::AddTerm(place, x, step.constant);
  return ir::FromLinear(c, place, t);
}

bool ExprPrinter::PrintQuad(const std::vector<const ir::Store*>& stores, Expr x) {
  const Expr at = PlaceOfQuad(stores, x);
  if (at == nullptr) return false;
  std::vector<Expr> roots = {at};
  for (const ir::Store* s : stores) roots.push_back(s->value->args[0]);
  Begin(roots);
  const ir::Buffer b = stores[0]->buffer;
  std::string words;
  for (const ir::Store* s : stores) {
    const Expr value = s->value->args[0];
    const Piece low = Lane(value, 0), high = Lane(value, 1);
    words += Cat(", ",
                 Temporary(DType::kU32, {Cat("cinn_pack_", Name(b->dtype), "(", low.text, ", ", high.text, ")")}).text);
  }
  std::string text(d_.store_quad);
  absl::StrReplaceAll({{"$0", Cat(buffer_names_.at(b), " + ", Lane(at, 0).text)}, {"$1", Lane(x, 0).text + words}},
                      &text);
  out_.Line(text);
  return true;
}

bool ExprPrinter::PrintCopy(const ir::Store& s) {
  const Expr e = s.value;
  if (s.buffer->scope != ir::Scope::kShared || s.mask != nullptr || e->op != ExprOp::kLoad) return false;
  if (e->buffer->scope != ir::Scope::kGlobal || e->buffer->dtype != s.buffer->dtype) return false;
  const Expr mask = ir::MaskOf(e);
  if (e->type.lanes == 1 || (mask != nullptr && mask->type.lanes != 1)) return false;
  const Chunks to = ChunksOf(s.buffer, s.indices[0]), from = ChunksOf(e->buffer, e->args[0]);
  if (to.words == 0 || to.words != from.words) return false;
  const int bytes = to.words * 4;
  // What varies, and a constant that the access can hold.
  const auto split = [](Expr e) {
    const bool sums = e->op == ExprOp::kAdd && ir::IsInt(e->args[1]);
    return sums ? std::pair(e->args[0], e->args[1]->int_value) : std::pair(e, int64_t{0});
  };
  const auto [to_index, to_offset] = split(s.indices[0]->args[0]);
  const auto [from_index, from_offset] = split(e->args[0]->args[0]);
  // Whole groups of 8 rows of a panel lie one behind the other: where what is left lies is the same in all of them.
  Expr groups = nullptr, rest = to_index;
  if (IsPanel(s.buffer)) {
    ir::Context& c = analyzer_.context();
    ir::Linear left = ir::ToLinear(c, to_index), whole;
    for (const ir::LinearTerm& t : ir::Linear(left).terms) {
      if (t.coef % (8 * panels_.at(s.buffer)) != 0) continue;
      ir::RemoveTerm(left, t.atom);
      ir::AddTerm(whole, t.atom, t.coef);
    }
    if (!whole.IsConst()) {
      groups = ir::FromLinear(c, whole, to_index->type.dtype), rest = ir::FromLinear(c, left, to_index->type.dtype);
      Begin(mask == nullptr ? std::vector<Expr>{groups, rest, from_index}
                            : std::vector<Expr>{groups, rest, from_index, mask});
    }
  }
  const Piece at = Lane(rest, 0), from_at = Lane(from_index, 0);
  const std::string &to_name = buffer_names_.at(s.buffer), &from_name = buffer_names_.at(e->buffer);
  const std::string guard = mask == nullptr ? "" : Mask(mask)[0];
  const int64_t element = BytesOf(s.buffer->dtype);
  // Byte i of what is written.
  const auto place = [&](int64_t i) {
    if (IsPanel(s.buffer)) {
      const std::string within = PlaceOf(s.buffer, AddOffset(at, DType::kI32, to_offset + i / element)).text;
      return groups == nullptr ? Cat(within, " * ", element)
                               : Cat("(", within, " + ", Lane(groups, 0).text, ") * ", element);
    }
    return Cat(Paren(at.text, at.precedence, kProduct), " * ", element, " + ", to_offset * element + i);
  };
  for (int i = 0; i < to.count; ++i) {
    const std::string source = Cat(from_name, " + ", Paren(from_at.text, from_at.precedence, kProduct), " + ",
                                   from_offset + i * bytes / element);
    std::string text(d_.copies[Row(to.words)]);
    // Where nothing is copied, nothing is read: from an address that exists.
    absl::StrReplaceAll({{"$0", to_name},
                         {"$1", place(i * bytes)},
                         {"$2", guard.empty() ? source : Cat(guard, " ? ", source, " : ", from_name)},
                         {"$3", guard.empty() ? Cat(bytes) : Cat(guard, " ? ", bytes, " : 0")}},
                        &text);
    out_.Line(text);
  }
  return true;
}

const ExprPrinter::Words& ExprPrinter::LoadWords(Expr e, Chunks c) {
  auto it = words_.find(e);
  if (it != words_.end()) return it->second;
  const ir::Buffer b = e->buffer;
  const int lanes = e->type.lanes;
  Piece base = Lane(e->args[0]->args[0], 0);
  const std::vector<std::string> mask = Mask(ir::MaskOf(e));
  Words words;
  std::vector<std::string> names;
  for (int i = 0; i < c.count; ++i) {
    names.push_back(Cat("t", next_temporary_++));
    for (int w = 0; w < c.words; ++w) words.push_back(c.words == 1 ? names[i] : Cat(names[i], kFields[w]));
  }
  const std::string_view type = d_.word_types[Row(c.words)];
  if (mask.empty()) {
    for (int i = 0; i < c.count; ++i) out_.Line("const ", type, " ", names[i], " = ", Chunk(b, c, base, i, true), ";");
    return words_[e] = words;
  }
  const std::string zero = JoinWords(Words(static_cast<size_t>(c.words * c.count), "0u"), c, 0);
  for (int i = 0; i < c.count; ++i) out_.Line(type, " ", names[i], " = ", zero, ";");
  std::string all = mask[0];
  for (size_t i = 1; i < mask.size(); ++i) all += Cat(" && ", mask[i]);
  out_.Open("if (", all, ")");
  for (int i = 0; i < c.count; ++i) out_.Line(names[i], " = ", Chunk(b, c, base, i, true), ";");
  if (mask.size() > 1) {
    out_.Else();
    const Words packed = PackWords(b->dtype, lanes, [&](int i) -> Piece {
      Piece p = Element(b, i == 0 ? base : AddOffset(base, DType::kI32, i));
      return {Cat(mask[static_cast<size_t>(i)], " ? ", p.text, " : 0"), kTernary};
    });
    for (size_t i = 0; i < words.size(); ++i) out_.Line(words[i], " = ", packed[i], ";");
  }
  out_.Close();
  return words_[e] = words;
}

ExprPrinter::Piece ExprPrinter::LaneOfWords(DType t, const Words& words, int lane) const {
  const int bytes = BytesOf(t);
  if (bytes == 8) {
    const size_t w = static_cast<size_t>(lane) * 2;
    Piece bits{Cat("(", ValueType(DType::kU64), ")", words[w + 1], " << 32 | ", words[w]), kBitOr};
    if (t == DType::kF64) return {Cat("cinn_f64_bits(", bits.text, ")")};
    return {Cat("(", ValueType(t), ")(", bits.text, ")"), kUnary};
  }
  const std::string& word = words[static_cast<size_t>(lane * bytes / 4)];
  if (t == DType::kF32) return {Cat("cinn_f32_bits(", word, ")")};
  const int shift = lane * bytes % 4 * 8;
  Piece bits = shift == 0 ? Piece{word} : Piece{Cat(word, " >> ", shift), kShift};
  if (t == DType::kBool) return {Cat("(", bits.text, " & 0xff) != 0"), kEquality};
  if (t == DType::kU32) return bits;
  return {Cat("(", ValueType(t), ")", Paren(bits.text, bits.precedence, kUnary)), kUnary};
}

ExprPrinter::Words ExprPrinter::PackWords(DType t, int lanes, const LaneFn& lane) {
  const int bytes = BytesOf(t);
  Words r;
  auto cast = [&](std::string_view type, const Piece& p) {
    return Cat("(", type, ")", Paren(p.text, p.precedence, kUnary));
  };
  if (bytes == 8) {
    for (int i = 0; i < lanes; ++i) {
      const Piece p = lane(i);
      const Piece bits = t == DType::kF64 ? Piece{Cat("cinn_bits_f64(", p.text, ")")} : p;
      const std::string name = Temporary(DType::kU64, bits).text;
      r.push_back(Cat("(unsigned int)", name));
      r.push_back(Cat("(unsigned int)(", name, " >> 32)"));
    }
    return r;
  }
  const int per_word = 4 / bytes;
  for (int w = 0; w < lanes / per_word; ++w) {
    std::string word;
    for (int k = 0; k < per_word; ++k) {
      const Piece p = lane(w * per_word + k);
      if (t == DType::kF32)
        word = Cat("cinn_bits_f32(", p.text, ")");
      else if (bytes == 4)
        word = cast("unsigned int", p);
      else {
        // Through the memory's unsigned type, so that signs don't spill into the neighbours.
        const std::string part = Cat("(unsigned int)", cast(bytes == 2 ? "unsigned short" : "unsigned char", p));
        word = k == 0 ? part : Cat(word, " | ", part, " << ", k * bytes * 8);
      }
    }
    r.push_back(std::move(word));
  }
  return r;
}

std::string ExprPrinter::JoinWords(const Words& words, Chunks c, int chunk) const {
  std::vector<Piece> args;
  for (int i = 0; i < c.words; ++i) args.push_back({words[static_cast<size_t>(chunk * c.words + i)], kBitOr});
  return Fill({ExprOp::kLoad, 0, d_.word_makers[Row(c.words)], c.words == 1 ? kBitOr : kAtom}, args, DType::kU32).text;
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

bool ExprPrinter::WritesInTurn(const ir::Store& s) const {
  const Expr index = s.indices[0];
  const bool apart = index->op == ExprOp::kRamp && ir::IsInt(index->args[1]) && index->args[1]->int_value != 0;
  bool r = true;
  // Loads of other lanes than the one that is written.
  const auto visit = [&](Expr root, bool all_lanes) {
    ir::VisitLoads(root, [&](Expr load) {
      if (load->buffer == s.buffer && (all_lanes || !apart || load->args[0] != index)) r = false;
    });
  };
  for (Expr e : {s.value, s.mask, index}) {
    if (e == nullptr) continue;
    visit(e, false);
    ir::Visit(e, [&](Expr x) {
      const bool reduces = x->op == ExprOp::kLaneAdd || x->op == ExprOp::kLaneMul || x->op == ExprOp::kLaneMin ||
                           x->op == ExprOp::kLaneMax;
      if (reduces) visit(x, true);
      return !reduces;
    });
  }
  return r;
}

void ExprPrinter::PrintStore(const ir::Store& s) {
  const ir::Buffer b = s.buffer;
  const DType t = b->dtype;
  const Expr index = s.indices[0];
  const int lanes = std::max({index->type.lanes, s.value->type.lanes, s.mask == nullptr ? 1 : s.mask->type.lanes});
  if (d_.HasLaneLoops() && lanes > 1 && WritesInTurn(s)) {
    OpenLaneLoop(lanes);
    const Piece guard = s.mask == nullptr ? Piece{} : Lane(s.mask, kEachLane);
    const std::string value = Lane(s.value, kEachLane).text, place = Element(b, Lane(index, kEachLane)).text;
    out_.Line(s.mask == nullptr ? "" : Cat("if (", guard.text, ") "), place, " = ", value, ";");
    out_.Close();
    return;
  }
  const std::vector<std::string> mask = Mask(s.mask);
  // Every lane is read before the first is written.
  bool reads_itself = false;
  for (Expr e : {index, s.value}) {
    ir::Visit(e, [&](Expr x) {
      reads_itself |= x->op == ExprOp::kLoad && x->buffer == b;
      return true;
    });
  }
  const Chunks c = ChunksOf(b, index);
  // A lane is written in two places if the mask may cut the vector, and one read twice must be a name.
  const bool branches = c.words != 0 && mask.size() > 1;
  std::vector<Piece> values;
  const bool packs_pairs = c.words != 0 && !branches && IsHalf(t) && s.value->op == ExprOp::kCast &&
                           uses_[s.value] == 1 && s.value->args[0]->type.dtype == DType::kF32 &&
                           s.value->type.lanes == lanes;
  if (!packs_pairs) {
    for (int i = 0; i < lanes; ++i) {
      Piece p = Lane(s.value, i);
      if (lanes > 1 && (reads_itself || branches) && p.precedence != kAtom) p = Temporary(t, p);
      if (lanes > 1 && reads_itself && p.text.find('[') != p.text.npos) p = Temporary(t, p);
      values.push_back(std::move(p));
    }
  }
  auto element = [&](int i) {
    return Cat(Element(b, Lane(index, i)).text, " = ", values[static_cast<size_t>(i)].text, ";");
  };
  if (c.words == 0) {
    for (int i = 0; i < lanes; ++i) {
      const std::string text = element(i);
      if (mask.empty())
        out_.Line(text);
      else
        out_.Line("if (", mask[mask.size() == 1 ? 0 : static_cast<size_t>(i)], ") ", text);
    }
    return;
  }
  Words words;
  if (packs_pairs) {
    for (int i = 0; i < lanes; i += 2) {
      const Piece lo = Lane(s.value->args[0], i), hi = Lane(s.value->args[0], i + 1);
      words.push_back(Cat("cinn_pack_", Name(t), "(", lo.text, ", ", hi.text, ")"));
    }
  } else {
    words = PackWords(t, lanes, [&](int i) { return values[static_cast<size_t>(i)]; });
  }
  for (std::string& w : words) w = Temporary(DType::kU32, {w}).text;
  const Piece base = Lane(index->args[0], 0);
  std::string all;
  for (size_t i = 0; i < mask.size(); ++i) all += Cat(i == 0 ? "" : " && ", mask[i]);
  if (!mask.empty()) out_.Open("if (", all, ")");
  for (int i = 0; i < c.count; ++i) out_.Line(Chunk(b, c, base, i, false), " = ", JoinWords(words, c, i), ";");
  if (branches) {
    out_.Else();
    for (int i = 0; i < lanes; ++i) out_.Line("if (", mask[static_cast<size_t>(i)], ") ", element(i));
  }
  if (!mask.empty()) out_.Close();
}

}  // namespace cinn_like::backends
