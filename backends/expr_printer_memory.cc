// What ExprPrinter reads and writes: elements, words of vectors, copies.
#include <algorithm>
#include <utility>

#include "absl/strings/str_replace.h"
#include "backends/expr_printer.h"
#include "ir/linear.h"

namespace cinn_like::backends {
namespace {
using ir::Expr;
using ir::ExprOp;

bool IsContiguous(Expr index) { return index->op == ExprOp::kRamp && ir::IsInt(index->args[1], 1); }

constexpr std::string_view kFields[] = {".x", ".y", ".z", ".w"};
}  // namespace

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

std::string ExprPrinter::PointerTo(ir::Buffer b, Chunks c, const Piece& base, int chunk) const {
  const int64_t offset = static_cast<int64_t>(chunk) * c.words * 4 / BytesOf(b->dtype);
  const Piece index = PlaceOf(b, offset == 0 ? base : AddOffset(base, DType::kI32, offset));
  return Cat(buffer_names_.at(b), " + ", Paren(index.text, index.precedence, kSum));
}

std::string ExprPrinter::Chunk(ir::Buffer b, Chunks c, const Piece& base, int chunk, bool is_const) const {
  const std::string pointer = PointerTo(b, c, base, chunk);
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
  // Where the eight of thread 0 would lie, then of this thread. Its index may have been multiplied in fewer bits.
  ir::Linear place = places[0];
  const auto of_x = std::find_if(place.terms.begin(), place.terms.end(), [&](const ir::LinearTerm& t) {
    if (t.atom->op != ExprOp::kCast) return t.atom == x && t.coef == kLanes;
    const ir::Linear inner = ir::ToLinear(c, t.atom->args[0]);
    return inner.exact && inner.constant == 0 && inner.terms.size() == 1 && inner.terms[0].atom == x &&
           inner.terms[0].coef * t.coef == kLanes;
  });
  if (of_x == place.terms.end()) return nullptr;
  ir::RemoveTerm(place, of_x->atom);
  const DType t = stores[0]->indices[0]->type.dtype;
  const Expr first = ir::FromLinear(c, place, t);
  if (ir::Uses(first, x) || analyzer_.KnownDivisor(first) % 8 != 0) return nullptr;
  ir::AddTerm(place, c.Cast(t, x), step.constant);
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
  const std::string_view store = b->scope == ir::Scope::kGlobal ? d_.word_stores[Row(c.words)] : "";
  for (int i = 0; i < c.count; ++i) {
    if (store.empty()) {
      out_.Line(Chunk(b, c, base, i, false), " = ", JoinWords(words, c, i), ";");
    } else {
      const std::vector<Piece> args = {{PointerTo(b, c, base, i), kSum}, {JoinWords(words, c, i), kAtom}};
      out_.Line(Fill({ExprOp::kLoad, 0, store, kAtom}, args, DType::kU32).text);
    }
  }
  if (branches) {
    out_.Else();
    for (int i = 0; i < lanes; ++i) out_.Line("if (", mask[static_cast<size_t>(i)], ") ", element(i));
  }
  if (!mask.empty()) out_.Close();
}

}  // namespace cinn_like::backends
