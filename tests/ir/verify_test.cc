#include "gtest/gtest.h"
#include "ir/stmt.h"

namespace cinn_like::ir {
namespace {

// Rules that text cannot break: built by hand.
class VerifyTest : public testing::Test {
 protected:
  VerifyTest() : context(std::make_shared<Context>()), c(*context) {
    x = c.MakeBuffer({.name = "x", .dtype = DType::kF32, .shape = {c.Int(8)}});
    f = {"f", FuncKind::kInternal, {Param{.buffer = x}}, {}, nullptr, context};
  }
  std::string ErrorOf(Stmt body) {
    f.body = std::move(body);
    return Message(Verify(f));
  }
  Stmt Loop(Expr var, Stmt body) { return MakeStmt(For{var, c.Int(8), ForKind::kSerial, std::move(body)}); }
  Stmt StoreAt(Expr i, Expr value = nullptr) {
    return MakeStmt(Store{x, {i}, value == nullptr ? c.Float(1) : value, nullptr});
  }
  std::shared_ptr<Context> context;
  Context& c;
  Buffer x;
  Func f;
};

TEST_F(VerifyTest, Accepts) { EXPECT_EQ(ErrorOf(Loop(c.Var("i"), StoreAt(c.Var("i")))), ""); }

TEST_F(VerifyTest, Names) {
  Expr i = c.Var("i");
  EXPECT_EQ(ErrorOf(Loop(i, Loop(i, StoreAt(i)))), "@f: in 'for i in 0..8 {': the name i is used twice");
  EXPECT_EQ(ErrorOf(MakeSeq({Loop(i, StoreAt(i)), StoreAt(i)})), "@f: in 'x[i] = 1.0': i is not declared here");
  EXPECT_EQ(ErrorOf(MakeStmt(Alloc{c.MakeBuffer({.name = "x", .shape = {c.Int(1)}, .scope = Scope::kLocal})})),
            "@f: in 'alloc x: f32[1] @local': the name x is used twice");
  Buffer y = c.MakeBuffer({.name = "y", .shape = {c.Int(4)}, .scope = Scope::kLocal});
  EXPECT_EQ(ErrorOf(StoreAt(c.Int(0), c.Load(y, {c.Int(0)}))), "@f: in 'x[0] = y[0]': buffer y is not declared here");
}

TEST_F(VerifyTest, Types) {
  EXPECT_EQ(ErrorOf(StoreAt(c.Int(0), c.Int(3))), "@f: in 'x[0] = 3': buffer x is f32 and the value i64");
  EXPECT_EQ(ErrorOf(StoreAt(c.Float(1))), "@f: in 'x[1.0] = 1.0': index 1.0 of x is f32");
  EXPECT_EQ(ErrorOf(MakeStmt(Store{x, {c.Int(0), c.Int(0)}, c.Float(1), nullptr})),
            "@f: in 'x[0, 0] = 1.0': buffer x has 1 dimensions and is indexed by 2");
  EXPECT_EQ(ErrorOf(StoreAt(c.Int(0), c.Make(ExprOp::kAdd, {c.Float(1), c.Int(1)}))),
            "@f: in 'x[0] = 1.0 + 1': 1.0 + 1 has operands of types f32, i64");
  EXPECT_EQ(ErrorOf(MakeStmt(If{c.Int(1), StoreAt(c.Int(0)), nullptr})),
            "@f: in 'if 1 {': the condition 1 is i64, not bool");
  EXPECT_EQ(ErrorOf(StoreAt(c.Ramp(c.Int(0), c.Int(1), 4), c.Broadcast(c.Float(1), 8))),
            "@f: in 'x[ramp(0, 1, 4)] = broadcast(1.0, 8)': index ramp(0, 1, 4) of x is i64x4");
  EXPECT_EQ(ErrorOf(MakeSeq({MakeStmt(Let{c.Var("v"), c.Float(1)}), StoreAt(c.Int(0))})),
            "@f: in 'let v = 1.0': v is i64 and its value f32");
}

// What comes after may count what is in bounds.
TEST_F(VerifyTest, Extents) {
  const auto buffer = [&](std::vector<Expr> shape) {
    return ErrorOf(MakeStmt(Alloc{c.MakeBuffer({.name = "y", .shape = shape, .scope = Scope::kGlobal})}));
  };
  const auto loop = [&](int64_t extent) {
    return ErrorOf(MakeStmt(For{c.Var("i"), c.Int(extent), ForKind::kSerial, StoreAt(c.Int(0))}));
  };
  EXPECT_EQ(loop(0), "");
  EXPECT_EQ(loop(int64_t{1} << 59), "");
  EXPECT_EQ(loop(-1), "@f: in 'for i in 0..-1 {': expected an extent in 0..1000000000000000000, got -1");
  EXPECT_EQ(loop(INT64_MIN), Cat("@f: in 'for i in 0..", INT64_MIN,
                                 " {': expected an extent in 0..1000000000000000000, got ", INT64_MIN));
  EXPECT_EQ(buffer({c.Int(1 << 20), c.Int(1 << 20)}), "");
  EXPECT_EQ(buffer({c.Int(0), c.Int(int64_t{1} << 31), c.Int(int64_t{1} << 31)}),
            "@f: in 'alloc y: f32[0, 2147483648, 2147483648] @global': buffer y is too large: expected at most "
            "1000000000000000000 bytes, got 1.84467e+19");
  // Whatever the symbol is.
  const Expr n = c.Var("n");
  f.symbols = {{.var = n, .lo = int64_t{1} << 31, .hi = int64_t{1} << 40}};
  EXPECT_EQ(buffer({n, n}),
            "@f: in 'alloc y: f32[n, n] @global': buffer y is too large: expected at most 1000000000000000000 bytes, "
            "got 1.84467e+19");
  EXPECT_EQ(buffer({n, c.Int(1 << 20)}), "");
  f.symbols.clear();
  EXPECT_EQ(buffer({c.Int(-8)}),
            "@f: in 'alloc y: f32[-8] @global': expected an extent in 0..1000000000000000000, got -8");
  Block b;
  b.name = "b";
  b.iters = {{c.Var("v"), c.Int(-8), IterKind::kData, c.Int(0)}};
  b.body = StoreAt(c.Int(0));
  EXPECT_EQ(ErrorOf(MakeStmt(std::move(b))),
            "@f: in 'block b(v in 0..-8 = 0) {': expected an extent in 0..1000000000000000000, got -8");
}

TEST_F(VerifyTest, Blocks) {
  Expr i = c.Var("i"), v = c.Var("v");
  auto block = [&](Expr binding, Stmt body) {
    Block b;
    b.name = "b";
    b.iters = {{v, c.Int(8), IterKind::kData, binding}};
    b.body = std::move(body);
    return MakeStmt(std::move(b));
  };
  EXPECT_EQ(ErrorOf(Loop(i, block(i, StoreAt(v)))), "");
  EXPECT_EQ(ErrorOf(Loop(i, block(i, StoreAt(i)))),
            "@f: in 'x[i] = 1.0': i is a loop variable; a block speaks of its iterators");
  EXPECT_EQ(ErrorOf(block(i, StoreAt(v))), "@f: in 'block b(v in 0..8 = i) {': i is not declared here");
}

TEST(VerifyModule, CallsMatch) {
  auto error = [](std::string_view text) {
    auto m = ParseModule(text);
    return m.ok() ? Message(Verify(*m)) : Message(m.status());
  };
  EXPECT_EQ(error("func @f(n: i64) { call cinn_range_error(\"what\", n, 0, 4) }"), "");
  EXPECT_NE(error("func @f(n: i64) { call cinn_range_error(n, 0, 4) }").find("cinn_range_error is i32(ptr,i64,"),
            std::string::npos);
  EXPECT_NE(error("func @f(n: i64) { call cinn_range_error(\"a \\\"b\\\"\", n, 0, 4) }").find("without quotes"),
            std::string::npos);
  EXPECT_EQ(error("func @f(x: f32[4]) { call @g(&x[0]) }"), "@f: call of unknown function @g");
  EXPECT_EQ(error("func @f(x: f32[4]) { call @g(&x[0], 1) }\nfunc @g(y: f32[4]) { y[0] = 1.0 }"),
            "@f: @g takes 1 arguments and got 2");
  EXPECT_EQ(error("func @f(x: f32[4]) { call @g(3) }\nfunc @g(y: f32[4]) { y[0] = 1.0 }"),
            "@f: argument 0 of @g is 3 of type i64, expected an address");
}

}  // namespace
}  // namespace cinn_like::ir
