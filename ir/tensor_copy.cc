#include "ir/tensor_copy.h"

#include <algorithm>

#include "ir/linear.h"
#include "ir/mma.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

constexpr int64_t kMostRows = 256;        // of a box
constexpr int64_t kAlignment = 16;        // bytes, of a tensor and its strides
constexpr size_t kMostDimensions = 5;     // of a map
constexpr size_t kDimensionsOfLines = 2;  // more, where a row has several lines

class Matcher {
 public:
  Matcher(Analyzer& a, const For& loop) : a_(a), c_(a.context()), rows_(loop), columns_(As<For>(loop.body)) {}

  StatusOr<TensorCopy> Run() {
    if (columns_ == nullptr || columns_->kind != ForKind::kSerial || !IsInt(rows_.extent) || !IsInt(columns_->extent))
      return Refuse("expected two loops of constant extents");
    const int64_t rows = rows_.extent->int_value, columns = columns_->extent->int_value;
    if (rows % kPanelRows != 0 || rows > kMostRows || columns % kPanelLine != 0)
      return Refuse("expected a multiple of ", kPanelRows, " rows, at most ", kMostRows, ", of a multiple of ",
                    kPanelLine, " elements, got ", rows, " of ", columns);
    for (const For* n : {&rows_, columns_}) a_.BindRange(n->var, c_.Int(0, n->var->type.dtype), n->extent);
    Stmt body = columns_->body;
    if (const Block* b = As<Block>(body)) {
      if (b->init != nullptr || (b->predicate != nullptr && !IsInt(b->predicate, 1)))
        return Refuse("block ", b->name, " has a start or a condition");
      body = Substitute(c_, b->body, Bindings(*b));
    }
    const Store* s = As<Store>(body);
    const bool copies = s != nullptr && s->mask == nullptr && s->buffer->scope == Scope::kShared &&
                        s->value->op == ExprOp::kLoad && s->value->buffer->scope == Scope::kGlobal &&
                        s->value->buffer->dtype == s->buffer->dtype && IsHalf(s->buffer->dtype);
    if (!copies) return Refuse("expected one store to shared memory of a 16-bit float of global memory as it is");
    RETURN_IF_ERROR(FindTo(*s));
    RETURN_IF_ERROR(FindFrom(s->value));
    return std::move(r_);
  }

 private:
  template <class... Args>
  Status Refuse(const Args&... why) const {
    return InvalidArgument(Name(ForKind::kTensorCopy), " ", rows_.var->name, ": ", why...);
  }

  // An index, apart from how it goes along rows and columns.
  struct Place {
    Expr rest = nullptr;
    int64_t rows = 0, columns = 0;
    bool moves = false;  // otherwise as well
  };
  Place PlaceOf(Expr index) {
    Linear l = ToLinear(c_, a_.Simplify(index));
    Place r;
    for (const LinearTerm& t : Linear(l).terms) {
      if (t.atom != rows_.var && t.atom != columns_->var) continue;
      (t.atom == rows_.var ? r.rows : r.columns) = t.coef;
      RemoveTerm(l, t.atom);
    }
    r.rest = FromLinear(c_, l, index->type.dtype);
    r.moves = !l.exact || Uses(r.rest, rows_.var) || Uses(r.rest, columns_->var);
    return r;
  }

  Status FindTo(const Store& s) {
    std::vector<Expr> first;
    const size_t rank = s.indices.size();
    for (size_t d = 0; d < rank; ++d) {
      const Place p = PlaceOf(s.indices[d]);
      if (p.moves || p.columns != (d + 1 == rank ? 1 : 0) || p.rows != (d + 2 == rank ? 1 : 0))
        return Refuse("expected rows and columns of ", s.buffer->name, ", got ", Print(c_.Load(s.buffer, s.indices)));
      first.push_back(p.rest);
    }
    if (rank < 2) return Refuse("expected rows of ", s.buffer->name);
    r_.to = c_.Address(s.buffer, first);
    return absl::OkStatus();
  }

  Status FindFrom(Expr load) {
    const Buffer b = load->buffer;
    const std::vector<Expr> indices = IndicesOf(load);
    if (!b->strides.empty() || b->alignment < kAlignment)
      return Refuse("expected ", b->name, " to be dense and aligned to ", kAlignment, " bytes");
    ASSIGN_OR_RETURN(const std::vector<bool> masked, MaskedOf(load));
    // Of each dimension; what the rectangle is one of is joined where it lies together.
    struct Side {
      Expr extent, stride, box, at;
      bool joins;
    };
    std::optional<Side> columns, rows;
    std::vector<Side> others;
    Expr stride = c_.Int(1);
    for (size_t d = indices.size(); d-- > 0; stride = a_.Simplify(c_.Mul(stride, b->shape[d]))) {
      const Place p = PlaceOf(indices[d]);
      const Expr extent = b->shape[d];
      if (p.moves || p.rows + p.columns > 1 || p.rows < 0 || p.columns < 0)
        return Refuse("expected rows and columns of ", b->name, ", got ", Print(load));
      if (p.columns == 1 && (columns || !IsInt(stride, 1)))
        return Refuse("expected neighbours in memory in a row, got ", Print(load));
      if (!IsInt(stride, 1) && a_.KnownDivisor(stride) * BytesOf(b->dtype) % kAlignment != 0)
        return Refuse("expected rows of ", b->name, " to begin at multiples of ", kAlignment, " bytes");
      if (p.columns == 1) {
        columns = Side{extent, stride, columns_->extent, p.rest, false};
      } else if (p.rows == 1) {
        if (rows) return Refuse("expected rows along one dimension of ", b->name);
        rows = Side{extent, stride, rows_.extent, p.rest, false};
      } else if (!IsInt(extent, 1)) {
        const bool follows = !others.empty() && others.back().joins && joined_up_to_ == d + 1 && !masked[d];
        if (follows) {
          Side& o = others.back();
          o.at = c_.Add(c_.Mul(p.rest, o.extent), o.at);
          o.extent = a_.Simplify(c_.Mul(o.extent, extent));
        } else {
          others.push_back({extent, stride, c_.Int(1), p.rest, !masked[d]});
        }
        joined_up_to_ = d;
      }
      if (d == 0) break;
    }
    if (!columns || !rows) return Refuse("expected rows and columns of ", b->name, ", got ", Print(load));
    const bool has_lines = columns_->extent->int_value > kPanelLine;
    if (2 + others.size() + (has_lines ? kDimensionsOfLines : 0) > kMostDimensions)
      return Refuse("a copy engine knows ", kMostDimensions, " dimensions at most, of ", Print(load));
    // Lines and groups of rows are dimensions of their own.
    const auto divides = [&](Expr e, int64_t by) { return a_.KnownDivisor(e) % by == 0; };
    const bool whole = divides(columns->extent, kPanelLine) && divides(columns->at, kPanelLine) &&
                       divides(rows->extent, kPanelRows) && divides(rows->at, kPanelRows);
    if (has_lines && !whole)
      return Refuse("expected ", b->name, " to consist of lines of ", kPanelLine, " elements and of groups of ",
                    kPanelRows, " rows, and rows to begin with these");
    others.insert(others.begin(), {*columns, *rows});
    for (const Side& s : others) {
      r_.map.extents.push_back(s.extent), r_.map.strides.push_back(s.stride), r_.map.box.push_back(s.box);
      r_.coordinates.push_back(s.at);
    }
    r_.map.address = c_.Address(b, std::vector<Expr>(b->shape.size(), c_.Int(0)));
    return absl::OkStatus();
  }

  // Of which dimensions the mask says that places are within them.
  StatusOr<std::vector<bool>> MaskedOf(Expr load) {
    std::vector<bool> r(load->buffer->shape.size());
    const std::vector<Expr> indices = IndicesOf(load);
    std::vector<Expr> conditions;
    if (const Expr mask = MaskOf(load)) conditions.push_back(mask);
    while (!conditions.empty()) {
      const Expr e = conditions.back();
      conditions.pop_back();
      if (e->op == ExprOp::kAnd) {
        conditions.insert(conditions.end(), {e->args[0], e->args[1]});
        continue;
      }
      bool found = false;
      for (size_t d = 0; d < indices.size() && !found && e->op == ExprOp::kLt; ++d) {
        found = IsInt(a_.Simplify(c_.Sub(e->args[0], indices[d])), 0) &&
                IsInt(a_.Simplify(c_.Sub(e->args[1], load->buffer->shape[d])), 0);
        r[d] = r[d] || found;
      }
      if (!found) return Refuse("expected a mask that says what lies in ", load->buffer->name, ", got ", Print(e));
    }
    return r;
  }

  Analyzer& a_;
  Context& c_;
  const For& rows_;
  const For* columns_;
  TensorCopy r_;
  size_t joined_up_to_ = 0;  // the outermost dimension in the last of the others
};

}  // namespace

bool IsTensorCall(const Call& call) {
  return call.is_runtime && (call.callee == kInitArrivals || call.callee == kTensorCopy || call.callee == kAwaitCopies);
}

StatusOr<TensorCopy> MatchTensorCopy(Analyzer& a, const For& loop) { return Matcher(a, loop).Run(); }

Call CallOf(const TensorCopy& copy, Stmt meaning) {
  Call r{.callee = std::string(kTensorCopy), .is_runtime = true, .text = {}, .args = {}, .meaning = std::move(meaning)};
  r.args = {copy.to, copy.arrival, copy.map.address};
  for (const auto* numbers : {&copy.map.extents, &copy.map.strides, &copy.map.box, &copy.coordinates})
    r.args.insert(r.args.end(), numbers->begin(), numbers->end());
  return r;
}

std::optional<TensorCopy> TensorCopyOf(const Call& call) {
  constexpr size_t kAddresses = 3, kLists = 4;
  const auto is_address = [](Expr e) { return e->op == ExprOp::kAddress; };
  const size_t rank = call.args.size() < kAddresses ? 0 : (call.args.size() - kAddresses) / kLists;
  if (!call.is_runtime || call.callee != kTensorCopy || rank < 2 || call.args.size() != kAddresses + kLists * rank ||
      !std::all_of(call.args.begin(), call.args.begin() + kAddresses, is_address))
    return std::nullopt;
  const auto list = [&](size_t k) {
    const auto at = call.args.begin() + static_cast<ptrdiff_t>(kAddresses + k * rank);
    return std::vector<Expr>(at, at + static_cast<ptrdiff_t>(rank));
  };
  return TensorCopy{call.args[0], call.args[1], {call.args[2], list(0), list(1), list(2)}, list(3)};
}

std::vector<TensorMap> TensorMapsOf(const Stmt& kernel_body) {
  std::vector<TensorMap> r;
  VisitStmts(kernel_body, [&](const Stmt& s) {
    const Call* call = As<Call>(s);
    const std::optional<TensorCopy> copy = call == nullptr ? std::nullopt : TensorCopyOf(*call);
    if (copy && std::find(r.begin(), r.end(), copy->map) == r.end()) r.push_back(copy->map);
    return true;
  });
  return r;
}

}  // namespace cinn_like::ir
