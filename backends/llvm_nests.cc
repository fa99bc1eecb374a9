#include "backends/llvm_nests.h"

#include <utility>

#include "backends/llvm_machine.h"
#include "ir/vector_nests.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace cinn_like {
namespace {

using ir::Buffer;
using ir::Expr;

constexpr int kTileRows = 16;   // and columns, of 4 bytes
constexpr int kMostSteps = 16;  // rows of a transposition by interleaving

class NestEmitter {
 public:
  NestEmitter(llvm::IRBuilderBase& b, ExprEmitter& exprs, ir::Context& c, const llvm::TargetMachine& machine,
              bool contract)
      : b_(b), exprs_(exprs), c_(c), machine_(machine), contract_(contract) {}

  void EmitDot(const ir::DotNest& n) {
    llvm::Value* acc = LoadRun(n.acc, n.acc_base, n.lanes);
    llvm::Value *lhs = Groups(n.lhs, n), *rhs = Groups(n.rhs, n);
    const bool is_float = n.size == 2;
    // The instruction's first factor is unsigned, its second one signed; 1 is either.
    const auto is_signed = [](const ir::DotNest::Operand& o) { return o.buffer->dtype == DType::kI8; };
    const bool mixed = n.rhs.buffer == nullptr || is_float || is_signed(n.lhs) != is_signed(n.rhs);
    const auto id = is_float ? PairsInstruction(n.lanes) : mixed ? FoursInstruction(n.lanes) : kNone;
    if (id != kNone && is_float) {
      llvm::Type* type = llvm::FixedVectorType::get(b_.getBFloatTy(), 2 * static_cast<unsigned>(n.lanes));
      acc = b_.CreateIntrinsic(id, {}, {acc, b_.CreateBitCast(lhs, type), b_.CreateBitCast(rhs, type)});
    } else if (id != kNone) {
      if (is_signed(n.lhs)) std::swap(lhs, rhs);
      acc = b_.CreateIntrinsic(id, {}, {acc, lhs, rhs});
    } else if (is_float) {
      for (const bool second : {false, true}) {
        llvm::Value* product = b_.CreateFMul(Half(lhs, second), Half(rhs, second));
        acc = b_.CreateFAdd(acc, product);
      }
    } else {
      for (int k = 0; k < n.size; ++k) {
        llvm::Value* term = Byte(lhs, k, is_signed(n.lhs));
        if (n.rhs.buffer != nullptr) term = b_.CreateMul(term, Byte(rhs, k, is_signed(n.rhs)));
        acc = b_.CreateAdd(acc, term);
      }
    }
    StoreRun(n.acc, n.acc_base, acc);
  }

  // False where the processor has no such tiles. `from_zero`: whatever is in memory.
  bool EmitTiles(const ir::TileNest& n, bool from_zero) {
    const auto product = TileInstruction(n);
    if (product == kNone) return false;
    struct Part {
      int first, count;
    };
    const auto parts = [](int n) {
      std::vector<Part> r;
      for (int first = 0; first < n; first += kTileRows) r.push_back({first, std::min(kTileRows, n - first)});
      return r;
    };
    const std::vector<Part> rows = parts(n.rows), columns = parts(n.columns);
    const auto load = [&](const ir::TileNest::Matrix& m, int row, int column, int count, int bytes) -> llvm::Value* {
      return b_.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64_internal, {}, TileAt(m, row, column, count, bytes));
    };
    std::vector<llvm::Value*> sums;
    for (const Part& r : rows) {
      for (const Part& k : columns) {
        sums.push_back(from_zero ? b_.CreateIntrinsic(llvm::Intrinsic::x86_tilezero_internal, {},
                                                      {b_.getInt16(r.count), b_.getInt16(4 * k.count)})
                                 : load(n.acc, r.first, k.first, r.count, 4 * k.count));
      }
    }
    llvm::Value* extent = exprs_.Emit(n.extent);
    llvm::BasicBlock* before = b_.GetInsertBlock();
    llvm::Function* f = before->getParent();
    llvm::BasicBlock* loop = llvm::BasicBlock::Create(b_.getContext(), "tiles", f);
    llvm::BasicBlock* after = llvm::BasicBlock::Create(b_.getContext(), "", f);
    b_.CreateBr(loop);  // an extent of 0 is no reduction
    b_.SetInsertPoint(loop);
    exprs_.BeginStatement();
    llvm::PHINode* step = b_.CreatePHI(extent->getType(), 2);
    step->addIncoming(llvm::ConstantInt::get(extent->getType(), 0), before);
    exprs_.Bind(n.step, step);
    std::vector<llvm::PHINode*> running;
    for (llvm::Value* sum : sums) {
      running.push_back(b_.CreatePHI(sum->getType(), 2));
      running.back()->addIncoming(sum, before);
    }
    std::vector<llvm::Value*> w;
    for (const Part& k : columns) w.push_back(load(n.rhs, 0, k.first * n.size, n.groups, 4 * k.count));
    for (size_t i = 0; i < rows.size(); ++i) {
      llvm::Value* x = load(n.lhs, rows[i].first, 0, rows[i].count, 4 * n.groups);
      for (size_t j = 0; j < columns.size(); ++j) {
        const size_t at = i * columns.size() + j;
        sums[at] = b_.CreateIntrinsic(product, {},
                                      {b_.getInt16(rows[i].count), b_.getInt16(4 * columns[j].count),
                                       b_.getInt16(4 * n.groups), running[at], x, w[j]});
      }
    }
    llvm::Value* next = b_.CreateAdd(step, llvm::ConstantInt::get(extent->getType(), 1), "", true, true);
    step->addIncoming(next, loop);
    for (size_t at = 0; at < sums.size(); ++at) running[at]->addIncoming(sums[at], loop);
    b_.CreateCondBr(b_.CreateICmpSLT(next, extent), loop, after);
    b_.SetInsertPoint(after);
    exprs_.BeginStatement();
    size_t at = 0;
    for (const Part& r : rows) {
      for (const Part& k : columns) {
        std::vector<llvm::Value*> args = TileAt(n.acc, r.first, k.first, r.count, 4 * k.count);
        args.push_back(sums[at++]);
        b_.CreateIntrinsic(llvm::Intrinsic::x86_tilestored64_internal, {}, args);
      }
    }
    return true;
  }

  void EmitTranspose(const ir::TransposeNest& n) {
    if (n.is_run && (n.rows > kMostSteps || (n.columns & (n.columns - 1)) != 0)) return EmitTurnedRun(n);
    const int bits = n.unit * static_cast<int>(BytesOf(n.src->dtype)) * 8;
    llvm::Type* type = llvm::FixedVectorType::get(b_.getIntNTy(bits), static_cast<unsigned>(n.columns));
    std::vector<llvm::Value*> v;
    for (int r = 0; r < n.rows; ++r)
      v.push_back(
          b_.CreateBitCast(LoadRun(n.src, At(n.src_offset, {{n.column, 0}, {n.row, r}}), n.columns * n.unit), type));
    // What all hold, one after the other, is interleaved with its second half: each time a digit of the row moves from
    // the front to the back.
    std::vector<int> low, high;
    for (int i = 0; i < n.columns; ++i) {
      low.push_back(i / 2 + i % 2 * n.columns);
      high.push_back(low.back() + n.columns / 2);
    }
    for (int done = 1; done < n.rows; done *= 2) {
      std::vector<llvm::Value*> next;
      for (size_t i = 0; i < v.size() / 2; ++i) {
        next.push_back(b_.CreateShuffleVector(v[i], v[i + v.size() / 2], low));
        next.push_back(b_.CreateShuffleVector(v[i], v[i + v.size() / 2], high));
      }
      v = std::move(next);
    }
    // A vector holds a part of a run, or several.
    const int part = n.is_dense ? n.columns : std::min(n.columns, n.rows);
    llvm::Type* elements = n.src->dtype == DType::kF32   ? b_.getFloatTy()
                           : n.src->dtype == DType::kF64 ? b_.getDoubleTy()
                                                         : llvm::Type::getIntNTy(b_.getContext(), bits / n.unit);
    for (int i = 0; i < n.rows; ++i) {
      for (int k = 0; k < n.columns; k += part) {
        std::vector<int> lanes;
        for (int x = 0; x < part; ++x) lanes.push_back(k + x);
        llvm::Value* run = part == n.columns ? v[i] : b_.CreateShuffleVector(v[i], lanes);
        const int first = i * n.columns + k;
        StoreRun(n.dst, At(n.dst_offset, {{n.column, first / n.rows}, {n.row, first % n.rows}}),
                 b_.CreateBitCast(run, llvm::FixedVectorType::get(elements, static_cast<unsigned>(part * n.unit))));
      }
    }
  }

 private:
  // A run of vectors, as many as it has columns: every so many-th element goes to one of as many shorter runs, for each
  // prime factor of the number of columns.
  void EmitTurnedRun(const ir::TransposeNest& n) {
    std::vector<llvm::Value*> v;
    for (int k = 0; k < n.columns; ++k)
      v.push_back(LoadRun(
          n.src,
          c_.Add(At(n.src_offset, {{n.column, 0}, {n.row, 0}}), c_.Int(int64_t{k} * n.rows, n.src_offset->type.dtype)),
          n.rows));
    v = Turn(v, n.rows);
    for (int k = 0; k < n.columns; ++k) StoreRun(n.dst, At(n.dst_offset, {{n.column, k}, {n.row, 0}}), v[k]);
  }

  std::vector<llvm::Value*> Turn(const std::vector<llvm::Value*>& run, int lanes) {
    const int size = static_cast<int>(run.size());
    if (size == 1) return run;
    int factor = 2;
    while (size % factor != 0) ++factor;
    std::vector<llvm::Value*> r(run.size());
    for (int j = 0; j < factor; ++j) {
      std::vector<llvm::Value*> part;
      for (int first = 0; first < size; first += factor) {
        llvm::Value* gathered = run[first];
        for (int k = 1; k < factor; ++k) {
          std::vector<int> from;
          for (int lane = 0; lane < lanes; ++lane) {
            const int element = lane * factor + j, vector = element / lanes, at = element % lanes;
            from.push_back(vector == k ? lanes + at : k == 1 && vector == 0 ? at : lane);
          }
          gathered = b_.CreateShuffleVector(gathered, run[first + k], from);
        }
        part.push_back(gathered);
      }
      part = Turn(part, lanes);
      for (size_t k = 0; k < part.size(); ++k) r[k * factor + j] = part[k];
    }
    return r;
  }

  static constexpr llvm::Intrinsic::ID kNone = llvm::Intrinsic::not_intrinsic;

  llvm::Intrinsic::ID PairsInstruction(int lanes) const {
    if (!contract_ || !Has("+avx512bf16")) return kNone;
    if (lanes == 16) return llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512;
    if ((lanes != 8 && lanes != 4) || !Has("+avx512vl")) return kNone;
    return lanes == 8 ? llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256 : llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128;
  }
  llvm::Intrinsic::ID FoursInstruction(int lanes) const {
    if (lanes == 16) return Has("+avx512vnni") ? llvm::Intrinsic::x86_avx512_vpdpbusd_512 : kNone;
    if ((lanes != 8 && lanes != 4) || !(Has("+avxvnni") || Has("+avx512vnni,+avx512vl"))) return kNone;
    return lanes == 8 ? llvm::Intrinsic::x86_avx512_vpdpbusd_256 : llvm::Intrinsic::x86_avx512_vpdpbusd_128;
  }
  llvm::Intrinsic::ID TileInstruction(const ir::TileNest& n) const {
    using namespace llvm::Intrinsic;  // NOLINT: names of one intrinsic after the other
    if (n.size == 2) return contract_ && Has("+amx-tile,+amx-bf16") ? x86_tdpbf16ps_internal : kNone;
    if (!Has("+amx-tile,+amx-int8")) return kNone;
    const bool x = n.lhs.buffer->dtype == DType::kI8, w = n.rhs.buffer->dtype == DType::kI8;
    return x && w ? x86_tdpbssd_internal : x ? x86_tdpbsud_internal : w ? x86_tdpbusd_internal : x86_tdpbuud_internal;
  }
  // What loads and stores of a tile are told: its rows, their bytes, where it begins, and how far rows are apart.
  std::vector<llvm::Value*> TileAt(const ir::TileNest::Matrix& m, int row, int column, int rows, int bytes) {
    const Expr first = c_.Add(m.base, c_.Int(row * m.stride + column, m.base->type.dtype));
    llvm::Value* at = exprs_.EmitAddress(c_.Address(m.buffer, {first}));
    return {b_.getInt16(rows), b_.getInt16(bytes), at, b_.getInt64(m.stride * BytesOf(m.buffer->dtype))};
  }
  bool Has(std::string_view features) const { return HasFeatures(machine_, features); }

  Expr At(Expr offset, std::initializer_list<std::pair<Expr, int>> values) {
    ir::VarMap map;
    for (const auto& [var, value] : values) map[var] = c_.Int(value, var->type.dtype);
    return ir::Substitute(c_, offset, map);
  }

  Expr Run(Expr base, int elements) { return c_.Ramp(base, c_.Int(1, base->type.dtype), elements); }
  llvm::Value* LoadRun(Buffer from, Expr base, int elements) {
    return exprs_.Emit(c_.Load(from, {Run(base, elements)}));
  }
  void StoreRun(Buffer to, Expr base, llvm::Value* value) {
    const auto lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(value->getType())->getNumElements());
    const Expr run = c_.Var("run", {to->dtype, lanes});
    exprs_.Bind(run, value);
    exprs_.EmitStore({to, {Run(base, lanes)}, run, nullptr});
  }

  // What a lane multiplies, as 32 bits.
  llvm::Value* Groups(const ir::DotNest::Operand& o, const ir::DotNest& n) {
    const auto type = [&](int k) { return llvm::FixedVectorType::get(b_.getInt32Ty(), static_cast<unsigned>(k)); };
    if (o.buffer == nullptr) return llvm::ConstantInt::get(type(n.lanes), 0x01010101);
    if (!o.is_for_all) return b_.CreateBitCast(LoadRun(o.buffer, o.base, n.size * n.lanes), type(n.lanes));
    return b_.CreateVectorSplat(n.lanes, b_.CreateBitCast(LoadRun(o.buffer, o.base, n.size), b_.getInt32Ty()));
  }
  // One of each lane's four, widened.
  llvm::Value* Byte(llvm::Value* fours, int k, bool is_signed) {
    llvm::Value* top = b_.CreateShl(fours, llvm::ConstantInt::get(fours->getType(), 24 - 8 * k));
    llvm::Value* by = llvm::ConstantInt::get(fours->getType(), 24);
    return is_signed ? b_.CreateAShr(top, by) : b_.CreateLShr(top, by);
  }
  // The first or second of each pair as f32: its bits are the upper ones.
  llvm::Value* Half(llvm::Value* pairs, bool second) {
    llvm::Value* bits = second ? b_.CreateAnd(pairs, llvm::ConstantInt::get(pairs->getType(), 0xffff0000u))
                               : b_.CreateShl(pairs, llvm::ConstantInt::get(pairs->getType(), 16));
    return b_.CreateBitCast(bits, llvm::cast<llvm::VectorType>(pairs->getType())->getWithNewType(b_.getFloatTy()));
  }

  llvm::IRBuilderBase& b_;
  ExprEmitter& exprs_;
  ir::Context& c_;
  const llvm::TargetMachine& machine_;
  const bool contract_;
};

}  // namespace

bool EmitNest(llvm::IRBuilderBase& b, ExprEmitter& exprs, ir::Context& c, const llvm::TargetMachine& machine,
              bool contract, const ir::For& nest, const ir::Stmt* zeros) {
  const bool tiles = ir::DotSize(nest.kind) > 0 && ir::IsOfTiles(nest);
  if (zeros != nullptr && !tiles) return false;
  ir::Analyzer a(c);
  NestEmitter emitter(b, exprs, c, machine, contract);
  if (tiles) {
    const StatusOr<ir::TileNest> n = ir::MatchTiles(a, nest, nest.kind);
    return n.ok() && (zeros == nullptr || ir::StartsFromZero(a, *zeros, *n)) && emitter.EmitTiles(*n, zeros != nullptr);
  }
  if (ir::DotSize(nest.kind) > 0) {
    const StatusOr<ir::DotNest> n = ir::MatchDot(a, nest, nest.kind);
    if (n.ok()) emitter.EmitDot(*n);
    return n.ok();
  }
  const StatusOr<ir::TransposeNest> n = ir::MatchTranspose(a, nest);
  if (n.ok()) emitter.EmitTranspose(*n);
  return n.ok();
}

}  // namespace cinn_like
