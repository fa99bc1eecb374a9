// Parsing of loop text; errors give line and column. See ir/stmt.h for the forms.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cinn_like/base/lexer.h"
#include "ir/stmt.h"

namespace cinn_like::ir {
namespace {

constexpr int64_t kMostPending = 7;  // groups of copies

class Parser {
 public:
  Parser(std::shared_ptr<Context> context, std::string_view text)
      : context_(std::move(context)), c_(*context_), lex_(text) {}

  StatusOr<Module> ParseModule() {
    Module m{context_, {}};
    while (!lex_.AtEnd()) {
      ASSIGN_OR_RETURN(Func f, ParseFunc());
      if (m.Find(f.name) != nullptr) return lex_.Error(Cat("function @", f.name, " is defined twice"));
      m.funcs.push_back(std::move(f));
    }
    return m;
  }

  StatusOr<Stmt> ParseOnlyStmt(const Func& f) {
    DeclareNamesOf(f);
    ASSIGN_OR_RETURN(Stmt s, ParseStmt());
    if (!lex_.AtEnd()) return lex_.Error("expected the end of the statement");
    return s;
  }

  StatusOr<Expr> ParseOnlyExpr(const Func& f) {
    DeclareNamesOf(f);
    return ParseOnlyExpr(/*declare_on_use=*/false);
  }

  StatusOr<Expr> ParseOnlyExpr(bool declare_on_use) {
    declare_on_use_ = declare_on_use;
    ASSIGN_OR_RETURN(Expr e, ParseExpr(1));
    if (!lex_.AtEnd()) return lex_.Error("expected the end of the expression");
    return e;
  }

 private:
  void DeclareNamesOf(const Func& f) {
    for (const Param& p : f.params) {
      if (p.buffer != nullptr) buffers_[p.buffer->name] = p.buffer;
      if (p.var != nullptr) vars_[p.var->name] = p.var;
    }
    for (const SymbolFact& s : f.symbols) vars_[s.var->name] = s.var;
  }

  StatusOr<Func> ParseFunc() {
    vars_.clear();
    buffers_.clear();
    shared_.clear();
    RETURN_IF_ERROR(lex_.Expect("func"));
    RETURN_IF_ERROR(lex_.Expect("@"));
    Func f;
    f.context = context_;
    ASSIGN_OR_RETURN(f.name, lex_.Ident("a function name"));
    if (lex_.Eat("entry")) {
      f.kind = FuncKind::kEntry;
      if (!lex_.Is("(")) {
        ASSIGN_OR_RETURN(f.device, lex_.Ident("the name of a device"));
      }
    }
    if (lex_.Eat("kernel")) f.kind = FuncKind::kKernel;
    RETURN_IF_ERROR(lex_.Expect("("));
    // Shapes may use symbols that `where` declares later: any name in a parameter's shape is a symbol.
    declare_on_use_ = true;
    while (!lex_.Is(")")) {
      ASSIGN_OR_RETURN(Param p, ParseParam());
      f.params.push_back(p);
      if (!lex_.Eat(",")) break;
    }
    RETURN_IF_ERROR(lex_.Expect(")"));
    declare_on_use_ = false;
    if (lex_.Eat("where")) {
      do {
        SymbolFact s;
        ASSIGN_OR_RETURN(std::string name, lex_.Ident("a symbol"));
        s.var = vars_.emplace(name, c_.Var(name)).first->second;
        RETURN_IF_ERROR(lex_.Expect("in"));
        ASSIGN_OR_RETURN(s.lo, lex_.Int("the lower bound"));
        RETURN_IF_ERROR(lex_.Expect(".."));
        ASSIGN_OR_RETURN(s.hi, lex_.Int("the upper bound"));
        if (lex_.Eat("multiple")) {
          ASSIGN_OR_RETURN(s.divisor, lex_.Int("the divisor"));
          if (s.divisor < 1) return lex_.Error(Cat("the divisor of ", name, " must be positive"));
        }
        if (lex_.Eat("hint")) {
          ASSIGN_OR_RETURN(s.hint, lex_.Int("the hint"));
        }
        f.symbols.push_back(s);
      } while (lex_.Eat(","));
    }
    ASSIGN_OR_RETURN(f.body, ParseBraces());
    return f;
  }

  StatusOr<DType> ParseDTypeName() {
    const Token t = lex_.Peek();
    auto d = ParseDType(t.text);
    if (!d) return lex_.Error(Cat("expected a dtype (", AllDTypeNames(), ")"));
    lex_.Take();
    return *d;
  }

  // The shape, strides and alignment after "name: dtype".
  StatusOr<Buffer> ParseBufferRest(std::string name, DType dtype, bool has_scope) {
    RETURN_IF_ERROR(CheckNew(name));
    BufferNode b{.name = name, .dtype = dtype};
    RETURN_IF_ERROR(lex_.Expect("["));
    ASSIGN_OR_RETURN(b.shape, ParseList("]"));
    if (lex_.Eat("strides")) {
      RETURN_IF_ERROR(lex_.Expect("["));
      ASSIGN_OR_RETURN(b.strides, ParseList("]"));
      if (b.strides.size() != b.shape.size()) {
        return lex_.Error(Cat("buffer ", name, ": expected ", b.shape.size(), " strides and got ", b.strides.size()));
      }
    }
    if (lex_.Eat("align")) {
      ASSIGN_OR_RETURN(int64_t a, lex_.Int("the alignment in bytes"));
      if (a < 1 || a > kMaxAlignment || (a & (a - 1)) != 0) {
        return lex_.Error(
            Cat("buffer ", name, ": expected a power of 2 up to ", kMaxAlignment, " as alignment, not ", a));
      }
      b.alignment = static_cast<int>(a);
    }
    if (has_scope && lex_.Eat("pitch")) {
      ASSIGN_OR_RETURN(const int64_t offset, lex_.Int("the pitch's remainder"));
      RETURN_IF_ERROR(lex_.Expect("mod"));
      ASSIGN_OR_RETURN(const int64_t factor, lex_.Int("the pitch's divisor"));
      if (factor < 1 || factor > kMaxAlignment || offset < 0 || offset >= factor)
        return lex_.Error(Cat("buffer ", name, ": expected a pitch of R mod D, 0 <= R < D <= ", kMaxAlignment));
      b.pitch_factor = static_cast<int>(factor);
      b.pitch_offset = static_cast<int>(offset);
    }
    if (has_scope) {
      RETURN_IF_ERROR(lex_.Expect("@"));
      ASSIGN_OR_RETURN(std::string scope, lex_.Ident("a scope"));
      if (scope == "global")
        b.scope = Scope::kGlobal;
      else if (scope == "shared")
        b.scope = Scope::kShared;
      else if (scope == "warp")
        b.scope = Scope::kWarp;
      else if (scope == "local")
        b.scope = Scope::kLocal;
      else
        return lex_.Error(Cat("buffer ", name, ": unknown scope '", scope, "' (global, shared, warp, local)"));
      if (b.pitch_factor != 0 && b.scope == Scope::kGlobal)
        return lex_.Error(Cat("buffer ", name, ": rows of global memory have no pitch"));
    }
    Buffer r = c_.MakeBuffer(std::move(b));
    buffers_[name] = r;
    return r;
  }

  StatusOr<Param> ParseParam() {
    Param p;
    ASSIGN_OR_RETURN(std::string name, lex_.Ident("a parameter name"));
    RETURN_IF_ERROR(lex_.Expect(":"));
    ASSIGN_OR_RETURN(DType dtype, ParseDTypeName());
    if (lex_.Is("[")) {
      ASSIGN_OR_RETURN(p.buffer, ParseBufferRest(name, dtype, /*has_scope=*/false));
    } else {
      p.var = c_.Var(name, {dtype, 1});
      vars_[name] = p.var;
    }
    if (lex_.Eat("static"))
      p.role = ParamRole::kStatic;
    else if (lex_.Eat("prepared"))
      p.role = ParamRole::kPrepared;
    else if (lex_.Eat("out"))
      p.role = ParamRole::kResult;
    return p;
  }

  StatusOr<std::vector<Expr>> ParseList(std::string_view close) {
    std::vector<Expr> v;
    while (!lex_.Is(close)) {
      ASSIGN_OR_RETURN(Expr e, ParseExpr(1));
      v.push_back(e);
      if (!lex_.Eat(",")) break;
    }
    RETURN_IF_ERROR(lex_.Expect(close));
    return v;
  }

  StatusOr<Stmt> ParseBraces() {
    const Nesting nesting(*this);
    RETURN_IF_ERROR(nesting.status());
    RETURN_IF_ERROR(lex_.Expect("{"));
    // Names declared inside end with the braces.
    auto vars = vars_;
    auto buffers = buffers_;
    std::vector<Stmt> stmts;
    while (!lex_.Is("}")) {
      if (lex_.AtEnd()) return lex_.Error("expected '}'");
      ASSIGN_OR_RETURN(Stmt s, ParseStmt());
      if (s != nullptr) stmts.push_back(std::move(s));
    }
    lex_.Take();
    vars_ = std::move(vars);
    buffers_ = std::move(buffers);
    return MakeSeq(std::move(stmts));
  }

  Status CheckNew(const std::string& name) {
    if (!vars_.contains(name) && !buffers_.contains(name)) return absl::OkStatus();
    return lex_.Error(Cat("'", name, "' is declared twice"));
  }

  StatusOr<Expr> DeclareVar(const std::string& name, Type t) {
    RETURN_IF_ERROR(CheckNew(name));
    return vars_[name] = c_.Var(name, t);
  }

  // Null for the `let $n` lines, which belong to the next statement.
  StatusOr<Stmt> ParseStmt() {
    if (lex_.Eat("let")) {
      if (lex_.Eat("$")) {
        ASSIGN_OR_RETURN(int64_t id, lex_.Int("a number after '$'"));
        RETURN_IF_ERROR(lex_.Expect("="));
        ASSIGN_OR_RETURN(const Expr e, ParseExpr(1));
        if (e->depth > kMaxDepthOfExpr) return lex_.Error(Cat("$", id, " is deeper than ", kMaxDepthOfExpr));
        shared_[id] = e;
        return Stmt();
      }
      ASSIGN_OR_RETURN(std::string name, lex_.Ident("a variable"));
      RETURN_IF_ERROR(lex_.Expect("="));
      ASSIGN_OR_RETURN(Expr value, ParseExpr(1));
      shared_.clear();
      ASSIGN_OR_RETURN(Expr var, DeclareVar(name, value->type));
      return MakeStmt(Let{var, value});
    }
    ASSIGN_OR_RETURN(Stmt s, ParseOther());
    shared_.clear();
    return s;
  }

  // A word that begins a statement, unless a buffer of that name is stored to.
  bool EatWord(std::string_view word) {
    Lexer ahead = lex_;
    if (!ahead.Eat(word) || ahead.Is("[")) return false;
    lex_ = ahead;
    return true;
  }

  // "(unroll=4, vectorize=off)"
  StatusOr<LoopHints> ParseHints() {
    LoopHints r;
    RETURN_IF_ERROR(lex_.Expect("("));
    do {
      ASSIGN_OR_RETURN(const std::string key, lex_.Ident("a hint"));
      RETURN_IF_ERROR(lex_.Expect("="));
      if (key == "unroll") {
        ASSIGN_OR_RETURN(const int64_t count, lex_.Int("a number of iterations"));
        if (count < 1 || count > kMostUnrolled)
          return lex_.Error(Cat("expected to unroll 1 to ", kMostUnrolled, " iterations and got ", count));
        r.unroll = static_cast<int>(count);
      } else if (key == "vectorize") {
        RETURN_IF_ERROR(lex_.Expect("off"));
        r.scalar = true;
      } else {
        return lex_.Error(Cat("unknown hint '", key, "' (unroll, vectorize)"));
      }
    } while (lex_.Eat(","));
    RETURN_IF_ERROR(lex_.Expect(")"));
    return r;
  }

  StatusOr<Stmt> ParseOther() {
    if (lex_.Eat("for")) {
      For n;
      ASSIGN_OR_RETURN(std::string name, lex_.Ident("a loop variable"));
      Type t = kIndexType;
      if (lex_.Eat(":")) {
        ASSIGN_OR_RETURN(t.dtype, ParseDTypeName());
      }
      RETURN_IF_ERROR(lex_.Expect("in"));
      RETURN_IF_ERROR(ExpectZero());
      ASSIGN_OR_RETURN(n.extent, ParseExpr(1));
      while (lex_.Eat("@")) {
        ASSIGN_OR_RETURN(std::string kind, lex_.Ident("a loop kind"));
        if (kind == "hint") {
          ASSIGN_OR_RETURN(n.kind.hints, ParseHints());
          continue;
        }
        if (lex_.Eat(".")) {
          ASSIGN_OR_RETURN(std::string axis, lex_.Ident("an axis"));
          kind += "." + axis;
        }
        auto k = ParseLoopKind(kind);
        if (!k || kind.empty()) return lex_.Error(Cat("loop ", name, ": unknown kind '", kind, "'"));
        n.kind = *k;
      }
      if (n.kind != ForKind::kSerial && n.kind.hints != LoopHints())
        return lex_.Error(Cat("loop ", name, ": hints are of serial loops"));
      shared_.clear();
      auto vars = vars_;
      ASSIGN_OR_RETURN(n.var, DeclareVar(name, t));
      ASSIGN_OR_RETURN(n.body, ParseBraces());
      vars_ = std::move(vars);
      return MakeStmt(std::move(n));
    }
    if (lex_.Eat("if")) {
      If n;
      ASSIGN_OR_RETURN(n.cond, ParseExpr(1));
      if (n.cond->type.dtype != DType::kBool) return lex_.Error("the condition of if must be bool");
      shared_.clear();
      ASSIGN_OR_RETURN(n.then, ParseBraces());
      if (lex_.Eat("else")) {
        ASSIGN_OR_RETURN(n.otherwise, ParseBraces());
      }
      return MakeStmt(std::move(n));
    }
    if (EatWord("while")) {
      While n;
      ASSIGN_OR_RETURN(n.cond, ParseExpr(1));
      if (n.cond->type.dtype != DType::kBool) return lex_.Error("the condition of while must be bool");
      shared_.clear();
      ASSIGN_OR_RETURN(n.body, ParseBraces());
      return MakeStmt(std::move(n));
    }
    if (EatWord("prefetch")) {
      Prefetch n;
      ASSIGN_OR_RETURN(n.value, ParseExpr(1));
      return MakeStmt(n);
    }
    if (lex_.Eat("alloc")) {
      ASSIGN_OR_RETURN(std::string name, lex_.Ident("a buffer name"));
      RETURN_IF_ERROR(lex_.Expect(":"));
      ASSIGN_OR_RETURN(DType dtype, ParseDTypeName());
      ASSIGN_OR_RETURN(Buffer b, ParseBufferRest(name, dtype, /*has_scope=*/true));
      return MakeStmt(Alloc{b});
    }
    if (lex_.Eat("block")) return ParseBlock();
    if (lex_.Eat("barrier")) return MakeStmt(Barrier{});
    for (const auto& [word, scope] : {std::pair("begin", BarrierScope::kBeginCopies),
                                      {"commit", BarrierScope::kCommitCopies},
                                      {"await", BarrierScope::kAwaitCopies}}) {
      if (!lex_.Eat(word)) continue;
      RETURN_IF_ERROR(lex_.Expect("copies"));
      Barrier n{scope};
      if (scope == BarrierScope::kAwaitCopies) {
        ASSIGN_OR_RETURN(const int64_t pending, lex_.Int("a number of groups"));
        if (pending < 0 || pending > kMostPending)
          return lex_.Error(Cat("expected 0 to ", kMostPending, " groups and got ", pending));
        n.pending = static_cast<int>(pending);
      }
      return MakeStmt(n);
    }
    if (lex_.Eat("launch")) {
      Launch n;
      RETURN_IF_ERROR(lex_.Expect("@"));
      ASSIGN_OR_RETURN(n.kernel, lex_.Ident("a kernel name"));
      RETURN_IF_ERROR(lex_.Expect("grid"));
      RETURN_IF_ERROR(lex_.Expect("("));
      ASSIGN_OR_RETURN(n.grid, ParseList(")"));
      RETURN_IF_ERROR(lex_.Expect("block"));
      RETURN_IF_ERROR(lex_.Expect("("));
      ASSIGN_OR_RETURN(n.block, ParseList(")"));
      if (n.grid.size() != 3 || n.block.size() != 3) return lex_.Error("grid and block have three extents each");
      if (lex_.Eat("cluster")) {
        ASSIGN_OR_RETURN(n.cluster, ParseExpr(1));
      }
      RETURN_IF_ERROR(lex_.Expect("shared"));
      ASSIGN_OR_RETURN(n.shared_bytes, ParseExpr(1));
      RETURN_IF_ERROR(lex_.Expect("("));
      ASSIGN_OR_RETURN(n.args, ParseList(")"));
      while (lex_.Eat("map")) {
        TensorMap m;
        RETURN_IF_ERROR(lex_.Expect("("));
        ASSIGN_OR_RETURN(m.address, ParseExpr(1));
        for (auto* numbers : {&m.extents, &m.strides, &m.box}) {
          RETURN_IF_ERROR(lex_.Expect(","));
          RETURN_IF_ERROR(lex_.Expect("["));
          ASSIGN_OR_RETURN(*numbers, ParseList("]"));
        }
        RETURN_IF_ERROR(lex_.Expect(")"));
        n.maps.push_back(std::move(m));
      }
      return MakeStmt(std::move(n));
    }
    if (lex_.Eat("call")) {
      if (lex_.Peek().kind == TokenKind::kString) return ParseFunctionCall();
      Call n;
      n.is_runtime = !lex_.Eat("@");
      ASSIGN_OR_RETURN(n.callee, lex_.Ident("a function name"));
      RETURN_IF_ERROR(lex_.Expect("("));
      if (n.is_runtime && lex_.Peek().kind == TokenKind::kString) {
        n.text = lex_.Take().text;
        if (!lex_.Is(")")) RETURN_IF_ERROR(lex_.Expect(","));
      }
      ASSIGN_OR_RETURN(n.args, ParseList(")"));
      if (n.is_runtime && lex_.Eat("computes")) {
        ASSIGN_OR_RETURN(n.meaning, ParseBraces());
      }
      return MakeStmt(std::move(n));
    }
    Store n;
    const Token start = lex_.Peek();
    ASSIGN_OR_RETURN(std::string name, lex_.Ident("a statement"));
    auto it = buffers_.find(name);
    if (it == buffers_.end()) return Lexer::ErrorAt(start, Cat("unknown buffer or statement '", name, "'"));
    n.buffer = it->second;
    RETURN_IF_ERROR(lex_.Expect("["));
    RETURN_IF_ERROR(ParseIndices(n.buffer, n.indices, n.mask));
    RETURN_IF_ERROR(lex_.Expect("="));
    ASSIGN_OR_RETURN(n.value, ParseExpr(1));
    if (n.value->type.dtype != n.buffer->dtype) {
      return Lexer::ErrorAt(
          start, Cat("store to ", name, ": expected ", Name(n.buffer->dtype), " and got ", Print(n.value->type)));
    }
    return MakeStmt(std::move(n));
  }

  // "name"(x, n) -> (y)
  StatusOr<Stmt> ParseFunctionCall() {
    Call n = CallOfFunction(lex_.Take().text);
    RETURN_IF_ERROR(ParseOperands(n, /*is_output=*/false));
    if (lex_.Eat("->")) RETURN_IF_ERROR(ParseOperands(n, /*is_output=*/true));
    return MakeStmt(std::move(n));
  }

  // "(x, &t[0] as f32[n, 4] strides [8, 1], n)"
  Status ParseOperands(Call& call, bool is_output) {
    RETURN_IF_ERROR(lex_.Expect("("));
    while (!lex_.Is(")")) {
      RETURN_IF_ERROR(ParseOperand(call, is_output));
      if (!lex_.Eat(",")) break;
    }
    return lex_.Expect(")");
  }
  Status ParseOperand(Call& call, bool is_output) {
    Lexer ahead = lex_;
    const auto named = buffers_.find(ahead.Take().text);
    if (named != buffers_.end() && !ahead.Is("[")) {
      lex_ = ahead;
      is_output ? AddOutput(c_, call, named->second) : AddInput(c_, call, named->second);
      return absl::OkStatus();
    }
    const Token at = lex_.Peek();
    ASSIGN_OR_RETURN(const Expr e, ParseExpr(1));
    if (!lex_.Eat("as")) {
      if (is_output || e->op == ExprOp::kAddress)
        return Lexer::ErrorAt(at, "expected a buffer, or &buffer[...] as dtype[...]");
      AddInput(call, e);
      return absl::OkStatus();
    }
    if (e->op != ExprOp::kAddress) return Lexer::ErrorAt(at, "expected &buffer[...] before 'as'");
    Call::Operand o{.is_tensor = true, .is_output = is_output};
    ASSIGN_OR_RETURN(o.dtype, ParseDTypeName());
    RETURN_IF_ERROR(lex_.Expect("["));
    ASSIGN_OR_RETURN(std::vector<Expr> numbers, ParseList("]"));
    o.rank = numbers.size();
    o.has_strides = lex_.Eat("strides");
    if (o.has_strides) {
      RETURN_IF_ERROR(lex_.Expect("["));
      ASSIGN_OR_RETURN(const std::vector<Expr> strides, ParseList("]"));
      if (strides.size() != o.rank) return lex_.Error(Cat("expected ", o.rank, " strides and got ", strides.size()));
      numbers.insert(numbers.end(), strides.begin(), strides.end());
    }
    call.operands.push_back(o);
    call.args.push_back(e);
    call.args.insert(call.args.end(), numbers.begin(), numbers.end());
    return absl::OkStatus();
  }

  Status ExpectZero() {
    if (lex_.Peek().kind != TokenKind::kInt || lex_.Peek().text != "0")
      return lex_.Error("expected '0..': ranges start at 0");
    lex_.Take();
    return lex_.Expect("..");
  }

  StatusOr<Stmt> ParseBlock() {
    Block n;
    ASSIGN_OR_RETURN(n.name, lex_.Ident("a block name"));
    RETURN_IF_ERROR(lex_.Expect("("));
    std::vector<std::string> names;
    while (!lex_.Is(")")) {
      BlockIter i;
      ASSIGN_OR_RETURN(std::string name, lex_.Ident("a block iterator"));
      names.push_back(name);
      if (lex_.Eat("reduce"))
        i.kind = IterKind::kReduce;
      else
        RETURN_IF_ERROR(lex_.Expect("in"));
      RETURN_IF_ERROR(ExpectZero());
      ASSIGN_OR_RETURN(i.extent, ParseExpr(1));
      RETURN_IF_ERROR(lex_.Expect("="));
      ASSIGN_OR_RETURN(i.binding, ParseExpr(1));
      n.iters.push_back(i);
      if (!lex_.Eat(",")) break;
    }
    RETURN_IF_ERROR(lex_.Expect(")"));
    if (lex_.Eat("if")) {
      ASSIGN_OR_RETURN(n.predicate, ParseExpr(1));
    }
    shared_.clear();
    auto vars = vars_;
    for (size_t i = 0; i < names.size(); ++i) {
      ASSIGN_OR_RETURN(n.iters[i].var, DeclareVar(names[i], kIndexType));
    }
    if (lex_.Eat("init")) {
      ASSIGN_OR_RETURN(n.init, ParseBraces());
    }
    ASSIGN_OR_RETURN(n.body, ParseBraces());
    vars_ = std::move(vars);
    return MakeStmt(std::move(n));
  }

  // "i, j; mask]"
  Status ParseIndices(Buffer b, std::vector<Expr>& indices, Expr& mask) {
    while (!lex_.Is("]") && !lex_.Is(";")) {
      ASSIGN_OR_RETURN(Expr e, ParseExpr(1));
      if (IsFloat(e->type.dtype)) return lex_.Error(Cat("an index of ", b->name, " is ", Print(e->type)));
      indices.push_back(e);
      if (!lex_.Eat(",")) break;
    }
    if (lex_.Eat(";")) {
      ASSIGN_OR_RETURN(mask, ParseExpr(1));
      if (mask->type.dtype != DType::kBool) return lex_.Error(Cat("the mask of ", b->name, " must be bool"));
    }
    if (indices.size() != b->shape.size()) {
      return lex_.Error(
          Cat("buffer ", b->name, " has ", b->shape.size(), " dimensions and is indexed by ", indices.size()));
    }
    return lex_.Expect("]");
  }

  StatusOr<Expr> ParseExpr(int min_precedence) {
    const Nesting nesting(*this);
    RETURN_IF_ERROR(nesting.status());
    ASSIGN_OR_RETURN(Expr left, ParseAtom());
    for (int operators = 0;;) {
      const Token& t = lex_.Peek();
      if (t.kind != TokenKind::kPunct) return left;
      std::string text = t.text;
      const bool swapped = text == ">" || text == ">=";  // a > b is b < a
      if (swapped) text[0] = '<';
      const ExprOp* op = FindOp(text, 2);
      if (op == nullptr || RowOf(*op)->precedence < min_precedence || RowOf(*op)->precedence == 0) return left;
      if (++operators > kMaxOperators) return lex_.Error(Cat("more than ", kMaxOperators, " operators in a row"));
      const Token at = lex_.Take();
      ASSIGN_OR_RETURN(Expr right, ParseExpr(RowOf(*op)->precedence + 1));
      ASSIGN_OR_RETURN(left,
                       MakeChecked(at, *op, swapped ? std::vector<Expr>{right, left} : std::vector<Expr>{left, right}));
    }
  }

  StatusOr<Expr> MakeChecked(const Token& at, ExprOp op, std::vector<Expr> args) {
    const OpRow& row = *RowOf(op);
    const size_t first = op == ExprOp::kSelect ? 1 : 0;
    for (size_t i = first + 1; i < args.size(); ++i) {
      const Type a = args[first]->type, b = args[i]->type;
      if (a.dtype != b.dtype && op != ExprOp::kShuffleXor && op != ExprOp::kLaneShift) {
        return Lexer::ErrorAt(at, Cat("operands of ", row.text, " are ", Print(a), " and ", Print(b)));
      }
      if (a.lanes != b.lanes && a.lanes != 1 && b.lanes != 1) {
        return Lexer::ErrorAt(at, Cat("operands of ", row.text, " have ", a.lanes, " and ", b.lanes, " lanes"));
      }
    }
    if (op == ExprOp::kSelect && args[0]->type.dtype != DType::kBool) {
      return Lexer::ErrorAt(at, Cat("the condition of select is ", Print(args[0]->type), ", not bool"));
    }
    return c_.Make(op, std::move(args));
  }

  StatusOr<Expr> ParseAtom() {
    const Token t = lex_.Peek();
    if (lex_.Eat("(")) {
      ASSIGN_OR_RETURN(Expr e, ParseExpr(1));
      RETURN_IF_ERROR(lex_.Expect(")"));
      return e;
    }
    if (lex_.Eat("$")) {
      ASSIGN_OR_RETURN(int64_t id, lex_.Int("a number after '$'"));
      auto it = shared_.find(id);
      if (it == shared_.end()) return Lexer::ErrorAt(t, Cat("unknown shared expression $", id));
      return it->second;
    }
    if (lex_.Eat("&")) {
      ASSIGN_OR_RETURN(std::string name, lex_.Ident("a buffer"));
      auto it = buffers_.find(name);
      if (it == buffers_.end()) return Lexer::ErrorAt(t, Cat("unknown buffer '", name, "'"));
      RETURN_IF_ERROR(lex_.Expect("["));
      std::vector<Expr> indices;
      Expr mask = nullptr;
      RETURN_IF_ERROR(ParseIndices(it->second, indices, mask));
      return c_.Address(it->second, std::move(indices));
    }
    if (t.kind == TokenKind::kInt || t.kind == TokenKind::kFloat || lex_.Is("-") || lex_.Is("inf") || lex_.Is("nan")) {
      return ParseLiteral(std::nullopt);
    }
    if (t.kind != TokenKind::kIdent) return lex_.Error("expected an expression");
    lex_.Take();
    if (t.text == "true" || t.text == "false") return c_.Bool(t.text == "true");
    if (lex_.Eat("(")) return ParseCall(t);
    if (lex_.Is("[")) {
      auto it = buffers_.find(t.text);
      if (it == buffers_.end()) return Lexer::ErrorAt(t, Cat("unknown buffer '", t.text, "'"));
      lex_.Take();
      std::vector<Expr> indices;
      Expr mask = nullptr;
      RETURN_IF_ERROR(ParseIndices(it->second, indices, mask));
      return c_.Load(it->second, std::move(indices), mask);
    }
    auto it = vars_.find(t.text);
    if (it != vars_.end()) return it->second;
    if (!declare_on_use_) return Lexer::ErrorAt(t, Cat("unknown variable '", t.text, "'"));
    return vars_[t.text] = c_.Var(t.text);
  }

  // A number; without `type` an integer is i64 and a float f32.
  StatusOr<Expr> ParseLiteral(std::optional<DType> type) {
    Lexer ahead = lex_;
    ahead.Eat("-");
    if (ahead.Peek().kind == TokenKind::kInt) {
      ASSIGN_OR_RETURN(const int64_t v, lex_.Int("an integer"));
      if (type && IsFloat(*type)) return c_.Float(static_cast<double>(v), *type);
      return c_.Int(v, type.value_or(DType::kI64));
    }
    ASSIGN_OR_RETURN(const double v, lex_.Number("a number"));
    if (!type) return c_.Float(v, DType::kF32);
    return IsFloat(*type) ? c_.Float(v, *type) : c_.Cast(*type, c_.Float(v, DType::kF32));
  }

  StatusOr<Expr> ParseCall(const Token& at) {
    const std::string& name = at.text;
    if (auto d = ParseDType(name)) {
      Expr e = nullptr;
      const Token& t = lex_.Peek();
      const bool literal =
          t.kind == TokenKind::kInt || t.kind == TokenKind::kFloat || lex_.Is("-") || lex_.Is("inf") || lex_.Is("nan");
      if (literal) {
        // f64(0.1) is the f64 nearest to 0.1, not that of an f32; f32(5 + i) is a cast of a sum.
        const Lexer before = lex_;
        ASSIGN_OR_RETURN(e, ParseLiteral(*d));
        if (lex_.Eat(")")) return e;
        lex_ = before;
      }
      ASSIGN_OR_RETURN(e, ParseExpr(1));
      RETURN_IF_ERROR(lex_.Expect(")"));
      return c_.Cast(*d, e);
    }
    if (lex_.Peek().kind == TokenKind::kString) return ParseCheck(at);
    ASSIGN_OR_RETURN(std::vector<Expr> args, ParseList(")"));
    auto lanes = [&](Expr e) -> int {
      return e->op == ExprOp::kInt && e->int_value > 0 && e->int_value <= kMaxLanes ? static_cast<int>(e->int_value)
                                                                                    : 0;
    };
    if (name == "ramp" && args.size() == 3 && lanes(args[2]) > 0) return c_.Ramp(args[0], args[1], lanes(args[2]));
    if (name == "broadcast" && args.size() == 2 && lanes(args[1]) > 0) return c_.Broadcast(args[0], lanes(args[1]));
    const ExprOp* op = FindOp(name, static_cast<int>(args.size()));
    if (op == nullptr || RowOf(*op)->precedence != 0)
      return Lexer::ErrorAt(at, Cat("unknown function '", name, "' of ", args.size(), " operands"));
    return MakeChecked(at, *op, std::move(args));
  }

  // "what", e, begin, end)
  StatusOr<Expr> ParseCheck(const Token& at) {
    const std::string what = lex_.Take().text;
    RETURN_IF_ERROR(lex_.Expect(","));
    ASSIGN_OR_RETURN(const std::vector<Expr> args, ParseList(")"));
    const auto is_index = [](Expr e) { return e->type.dtype == DType::kI64; };
    if (at.text != "checked" || args.size() != 3 || !std::all_of(args.begin(), args.end(), is_index))
      return Lexer::ErrorAt(at, "expected checked(\"what\", value, begin, end) of three i64");
    for (Expr e : args) {
      if (e->type.lanes != 1 &&
          e->type.lanes != std::max({args[0]->type.lanes, args[1]->type.lanes, args[2]->type.lanes}))
        return Lexer::ErrorAt(at, "operands of checked have different numbers of lanes");
    }
    return c_.Checked(args[0], args[1], args[2], what);
  }

  // Walks of the IR recurse: what they would overflow the stack with is an error here.
  static constexpr int kMaxDepth = 200, kMaxOperators = 2000;
  static constexpr int64_t kMaxAlignment = 4096;

  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) { ++parser_.depth_; }
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    Status status() const {
      if (parser_.depth_ <= kMaxDepth) return absl::OkStatus();
      return parser_.lex_.Error(Cat("nested deeper than ", kMaxDepth));
    }

   private:
    Parser& parser_;
  };

  std::shared_ptr<Context> context_;
  Context& c_;
  Lexer lex_;
  int depth_ = 0;
  bool declare_on_use_ = false;
  absl::flat_hash_map<std::string, Expr> vars_;
  absl::flat_hash_map<std::string, Buffer> buffers_;
  absl::flat_hash_map<int64_t, Expr> shared_;
};

}  // namespace

StatusOr<Module> ParseModule(std::string_view text) { return Parser(std::make_shared<Context>(), text).ParseModule(); }

StatusOr<Func> ParseFunc(std::string_view text) {
  ASSIGN_OR_RETURN(Module m, ParseModule(text));
  if (m.funcs.size() != 1) return InvalidArgument("expected one function and got ", m.funcs.size());
  return m.funcs[0];
}

StatusOr<Stmt> ParseStmtOf(const Func& f, std::string_view text) { return Parser(f.context, text).ParseOnlyStmt(f); }

StatusOr<Expr> ParseExprOf(const Func& f, std::string_view text) { return Parser(f.context, text).ParseOnlyExpr(f); }

StatusOr<Expr> ParseIndexExpr(Context& c, std::string_view text) {
  // The parser shares ownership of its context; this one belongs to the caller.
  return Parser(std::shared_ptr<Context>(std::shared_ptr<Context>(), &c), text).ParseOnlyExpr(/*declare_on_use=*/true);
}

}  // namespace cinn_like::ir
