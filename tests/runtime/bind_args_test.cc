#include "runtime/bind_args.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>

#include "cinn_like/base/tensor.h"
#include "runtime/arg_spec.h"
#include "runtime/last_error.h"
#include "runtime/workspace.h"

namespace cinn_like {
namespace {

alignas(64) char memory[1 << 16];
char* const result_memory = memory + (1 << 15);

// A call's values, with the storage behind them.
struct Args {
  struct Tensor {
    std::vector<int64_t> shape, strides;
    DLTensor t;
  };
  std::deque<Tensor> tensors;
  std::vector<CinnValue> values;

  DLTensor& Add(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
    Tensor& x = tensors.emplace_back(Tensor{std::move(shape), std::move(strides), {}});
    x.t.data = memory;
    x.t.device = {kDLCPU, 0};
    x.t.dtype = {InfoOf(dtype).dlpack_code, static_cast<uint8_t>(InfoOf(dtype).bits), 1};
    x.t.ndim = static_cast<int>(x.shape.size());
    x.t.shape = x.shape.data();
    x.t.strides = x.strides.empty() ? nullptr : x.strides.data();
    values.push_back({kCinnTensor, 0, {.tensor = &x.t}});
    return x.t;
  }
  void AddNone() { values.push_back({}); }
  void AddInt(int64_t i) { values.push_back({kCinnInt, 0, {.i = i}}); }
};

struct Bound {
  int32_t code = 0;
  std::vector<void*> pointers = std::vector<void*>(16);
  std::vector<int64_t> symbols = std::vector<int64_t>(16, -7);
  std::string Error() const { return code == 0 ? "" : LastError(); }
};

CinnCallEnv CpuEnv() {
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  return env;
}

Bound Bind(const ArgSpec& spec, const Args& args, const CinnCallEnv& env = CpuEnv()) {
  const StatusOr<std::string> bytes = EncodeArgSpec(spec);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  Bound b;
  b.code = cinn_bind_args(&cinn_device_x86_64, bytes->data(), static_cast<int64_t>(bytes->size()), nullptr,
                          args.values.data(), static_cast<int32_t>(args.values.size()), &env, b.pointers.data(),
                          b.symbols.data());
  return b;
}

ArgInfo Input(std::string name, DType dtype, std::vector<Dim> shape, std::vector<Dim> strides = {},
              int32_t alignment = 1) {
  return {std::move(name), ArgRole::kInput, 0, dtype, std::move(shape), std::move(strides), alignment};
}

// mlp(x: f32[n,256], w: f32[256,8] static packed, b: f32[8], y: f16[n+1,2] strides [1,n+1]) where n in 1..4096 ->
// f32[n,8]
ArgSpec Mlp() {
  const Dim n = SymbolDim(0);
  const Dim n1 = {{DimOp::kSymbol, 0}, {DimOp::kConst, 1}, {DimOp::kAdd, 0}};
  ArgSpec spec;
  spec.function = "mlp";
  spec.symbols = {{"n", 1, 4096, 1}};
  spec.args = {Input("x", DType::kF32, {n, ConstDim(256)}, {}, 16),
               {"w", ArgRole::kPacked, 0, DType::kF32, {ConstDim(256), ConstDim(8)}, {}, 1},
               Input("b", DType::kF32, {ConstDim(8)}),
               Input("y", DType::kF16, {n1, ConstDim(2)}, {ConstDim(1), n1}),
               {"%2", ArgRole::kResult, 0, DType::kF32, {n, ConstDim(8)}, {}, 64}};
  return spec;
}

Args MlpArgs(int64_t n) {
  Args a;
  a.Add(DType::kF32, {n, 256});
  a.AddNone();
  a.Add(DType::kF32, {8}, {1});
  a.Add(DType::kF16, {n + 1, 2}, {1, n + 1});
  a.Add(DType::kF32, {n, 8}, {8, 1}).data = result_memory;
  return a;
}

TEST(BindArgs, BindsPointersAndSymbols) {
  Args a = MlpArgs(5);
  a.tensors[1].t.byte_offset = 12;
  const Bound b = Bind(Mlp(), a);
  ASSERT_EQ(b.code, 0) << LastError();
  EXPECT_EQ(b.symbols[0], 5);
  EXPECT_EQ(b.pointers[0], memory);
  EXPECT_EQ(b.pointers[1], nullptr);
  EXPECT_EQ(b.pointers[2], memory + 12);
  EXPECT_EQ(b.pointers[4], result_memory);
}

TEST(BindArgs, SpecSurvivesAnyAddress) {
  std::string bytes = "x" + *EncodeArgSpec(Mlp());  // unaligned, moved
  Args a = MlpArgs(3);
  const CinnCallEnv env = CpuEnv();
  Bound b;
  EXPECT_EQ(cinn_bind_args(&cinn_device_x86_64, bytes.data() + 1, bytes.size() - 1, nullptr, a.values.data(), 5, &env,
                           b.pointers.data(), b.symbols.data()),
            0);
  EXPECT_EQ(b.symbols[0], 3);
}

// One way to break a good call, and what must be said.
struct Bad {
  const char* what;
  void (*breaks)(Args&, CinnCallEnv&);
  const char* message;
};

TEST(BindArgs, EachErrorNamesTheCulprit) {
  const Bad cases[] = {
      {"count", [](Args& a, CinnCallEnv&) { a.values.pop_back(); },
       "mlp: expected 5 arguments (x, w, b, y, %2), got 4"},
      {"tag of symbol source", [](Args& a, CinnCallEnv&) { a.values[0] = {kCinnInt, 0, {.i = 3}}; },
       "mlp: argument 'x': expected a tensor f32[n,256], got an integer"},
      {"tag", [](Args& a, CinnCallEnv&) { a.values[2] = {kCinnFloat, 0, {.f = 3}}; },
       "mlp: argument 'b': expected a tensor f32[8], got a float"},
      {"none", [](Args& a, CinnCallEnv&) { a.values[2] = {}; },
       "mlp: argument 'b': expected a tensor f32[8], got None"},
      {"strange tag", [](Args& a, CinnCallEnv&) { a.values[2].tag = 99; },
       "mlp: argument 'b': expected a tensor f32[8], got a value of tag 99"},
      {"null tensor", [](Args& a, CinnCallEnv&) { a.values[0].tensor = nullptr; },
       "mlp: argument 'x': expected f32[n,256], got a null tensor"},
      {"dtype", [](Args& a, CinnCallEnv&) { a.tensors[0].t.dtype = {kDLFloat, 64, 1}; },
       "mlp: argument 'x': expected f32[n,256], got f64[5,256] on cpu: dtype f64 is not f32"},
      {"lanes", [](Args& a, CinnCallEnv&) { a.tensors[0].t.dtype.lanes = 4; },
       "mlp: argument 'x': expected f32[n,256], got dlpack(code 2, 32 bits, 4 lanes)[5,256] on cpu: dtype dlpack(code "
       "2, 32 bits, 4 lanes) is not f32"},
      {"rank", [](Args& a, CinnCallEnv&) { a.tensors[1].t.ndim = 0; },
       "mlp: argument 'b': expected f32[8], got f32[] on cpu: rank 0 is not 1"},
      {"rank of symbol source", [](Args& a, CinnCallEnv&) { a.tensors[0].t.ndim = 0; },
       "mlp: argument 'x': expected f32[n,256], got f32[] on cpu: rank 0 is not 2"},
      {"constant dimension", [](Args& a, CinnCallEnv&) { a.tensors[0].shape[1] = 255; },
       "mlp: argument 'x': expected f32[n,256], got f32[5,255] on cpu: dimension 1 is 255, expected 256"},
      {"expression", [](Args& a, CinnCallEnv&) { a.tensors[2].shape[0] = 5; },
       "mlp: argument 'y': expected f16[n+1,2] strides [1,n+1], got f16[5,2] strides [1,6] on cpu: dimension 0 is 5, "
       "expected n+1 = 6"},
      {"relation", [](Args& a, CinnCallEnv&) { a.tensors[3].shape[0] = 4; },
       "mlp: result '%2': expected f32[n,8], got f32[4,8] on cpu: dimension 0 is 4, expected n = 5"},
      {"range", [](Args& a, CinnCallEnv&) { a.tensors[0].shape[0] = 5000; },
       "mlp: argument 'x': dimension 0: n = 5000 is outside 1..4096"},
      {"below the range", [](Args& a, CinnCallEnv&) { a.tensors[0].shape[0] = 0; },
       "mlp: argument 'x': dimension 0: n = 0 is outside 1..4096"},
      {"stride", [](Args& a, CinnCallEnv&) { a.tensors[3].strides = {1, 5}; },
       "mlp: result '%2': expected f32[n,8], got f32[5,8] strides [1,5] on cpu: stride 1 is 5, expected 1 "
       "(contiguous)"},
      {"strided expected", [](Args& a, CinnCallEnv&) { a.tensors[2].t.strides = nullptr; },
       "mlp: argument 'y': expected f16[n+1,2] strides [1,n+1], got f16[6,2] on cpu: stride 1 is 1, expected n+1 = 6"},
      {"alignment of a result", [](Args& a, CinnCallEnv&) { a.tensors[3].t.byte_offset = 4; },
       "mlp: result '%2': expected f32[n,8], got f32[5,8] on cpu: data is aligned to 4 bytes, expected 64"},
      {"device", [](Args& a, CinnCallEnv&) { a.tensors[1].t.device = {kDLCUDA, 1}; },
       "mlp: argument 'b': expected f32[8], got f32[8] on cuda:1: the call is on cpu"},
      {"null data", [](Args& a, CinnCallEnv&) { a.tensors[1].t.data = nullptr; },
       "mlp: argument 'b': expected f32[8], got f32[8] on cpu: data is null"},
      {"null shape", [](Args& a, CinnCallEnv&) { a.tensors[1].t.shape = nullptr; },
       "mlp: argument 'b': expected f32[8], got a null shape"},
      {"null shape of symbol source", [](Args& a, CinnCallEnv&) { a.tensors[0].t.shape = nullptr; },
       "mlp: argument 'x': expected f32[n,256], got a null shape"},
      {"call's device", [](Args&, CinnCallEnv& e) { e.device = {kDLCUDA, 1}; },
       "mlp: compiled for cpu devices, called on cuda:1"},
      {"environment", [](Args&, CinnCallEnv& e) { e.size = 8; },
       "mlp: the call's environment is null or older than this library"},
      {"no allocator", [](Args& a, CinnCallEnv&) { a.values[4] = {}; },
       "mlp: result '%2': is None, and the call has no allocator"},
      {"allocator fails",
       [](Args& a, CinnCallEnv& e) {
         a.values[4] = {};
         e.alloc = [](void*, int32_t, DLTensor*) { return -3; };
       },
       "mlp: result '%2': the caller's allocator failed with -3 for f32[n,8]"},
      {"allocator gives null",
       [](Args& a, CinnCallEnv& e) {
         a.values[4] = {};
         e.alloc = [](void*, int32_t, DLTensor*) { return 0; };
       },
       "mlp: result '%2': the caller's allocator gave null data"},
      {"allocator gives unaligned memory",
       [](Args& a, CinnCallEnv& e) {
         a.values[4] = {};
         e.alloc = [](void*, int32_t, DLTensor* t) {
           t->data = memory + 8;
           return 0;
         };
       },
       "mlp: result '%2': the caller's allocator gave data aligned to 8 bytes, expected 64"},
  };
  for (const Bad& bad : cases) {
    Args args = MlpArgs(5);
    CinnCallEnv env = CpuEnv();
    bad.breaks(args, env);
    const Bound b = Bind(Mlp(), args, env);
    EXPECT_LT(b.code, 0) << bad.what;
    EXPECT_EQ(b.Error(), bad.message) << bad.what;
  }
}

// Views at odd offsets: the code gets copies, in one workspace.
TEST(BindArgs, CopiesInputsThatAreAlignedWorse) {
  ArgSpec spec = Mlp();
  spec.args[3].alignment = 2;
  std::vector<char> bytes(1 << 14);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  Args a = MlpArgs(2);
  char* x = bytes.data() + 4 - (reinterpret_cast<uintptr_t>(bytes.data()) & 15);
  while ((reinterpret_cast<uintptr_t>(x) & 15) != 4) ++x;
  char* y = x + 2048 + 1;
  a.tensors[0].t.data = x;
  a.tensors[2].t.data = y;
  Bound b = Bind(spec, a);
  ASSERT_EQ(b.code, 0) << LastError();
  ASSERT_NE(b.pointers[5], nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.pointers[0]) & 15, 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.pointers[3]) & 1, 0);
  EXPECT_EQ(memcmp(b.pointers[0], x, 2 * 256 * 4), 0);
  EXPECT_EQ(memcmp(b.pointers[3], y, 3 * 2 * 2), 0);
  EXPECT_EQ(b.pointers[2], memory);  // as it was
  const CinnCallEnv env = CpuEnv();
  cinn_free_workspace(&cinn_device_x86_64, &env, b.pointers[5]);

  a.tensors[0].t.data = a.tensors[2].t.data = memory;
  b = Bind(spec, a);
  EXPECT_EQ(b.code, 0);
  EXPECT_EQ(b.pointers[5], nullptr);

  a.tensors[0].t.data = x;
  CinnCallEnv fails = CpuEnv();
  fails.alloc = [](void*, int32_t, DLTensor*) { return -3; };
  fails.free = [](void*, void*) {};
  b = Bind(spec, a, fails);
  EXPECT_LT(b.code, 0);
  EXPECT_NE(b.Error().find("allocator failed"), std::string::npos) << b.Error();
  EXPECT_EQ(b.pointers[5], nullptr);
}

TEST(BindArgs, DivisorAndIntegerArguments) {
  ArgSpec spec;
  spec.function = "f";
  spec.symbols = {{"m", 0, 64, 8}, {"k", 0, 10, 1}};
  spec.args = {Input("x", DType::kI8, {SymbolDim(0)}),
               {"k", ArgRole::kSymbol, 1, DType::kI64, {}, {}, 1},
               Input("z", DType::kI8, {{{DimOp::kSymbol, 0}, {DimOp::kSymbol, 1}, {DimOp::kMul, 0}}})};
  const auto call = [&](int64_t m, int64_t k, int64_t z) {
    Args a;
    a.Add(DType::kI8, {m});
    a.AddInt(k);
    a.Add(DType::kI8, {z});
    return Bind(spec, a);
  };
  const Bound good = call(16, 3, 48);
  EXPECT_EQ(good.Error(), "");
  EXPECT_EQ(good.symbols[1], 3);
  EXPECT_EQ(call(0, 0, 0).Error(), "");
  EXPECT_EQ(call(12, 3, 36).Error(), "f: argument 'x': dimension 0: m = 12 is not a multiple of 8");
  EXPECT_EQ(call(16, 11, 176).Error(), "f: argument 'k': k = 11 is outside 0..10");
  EXPECT_EQ(call(16, 3, 47).Error(),
            "f: argument 'z': expected i8[m*k], got i8[47] on cpu: dimension 0 is 47, expected m*k = 48");
  Args a;
  a.Add(DType::kI8, {8});
  a.Add(DType::kI8, {8});
  a.Add(DType::kI8, {8});
  EXPECT_EQ(Bind(spec, a).Error(), "f: argument 'k': expected an integer, got a tensor");
}

TEST(BindArgs, LenientWhereNothingCanGoWrong) {
  ArgSpec spec;
  spec.function = "f";
  spec.symbols = {{"n", 0, INT64_MAX, 1}};
  spec.args = {Input("x", DType::kF32, {SymbolDim(0), ConstDim(1), ConstDim(4)}, {}, 64)};
  {
    Args a;  // the stride of a dimension of size 1 says nothing
    a.Add(DType::kF32, {2, 1, 4}, {4, 99, 1});
    EXPECT_EQ(Bind(spec, a).Error(), "");
  }
  {
    Args a;  // no elements: any strides, null data, any alignment
    a.Add(DType::kF32, {0, 1, 4}, {7, 7, 7}).data = nullptr;
    const Bound b = Bind(spec, a);
    EXPECT_EQ(b.Error(), "");
    EXPECT_EQ(b.pointers[0], nullptr);
    a.tensors[0].t.data = memory + 1;
    EXPECT_EQ(Bind(spec, a).Error(), "");
  }
  {
    Args a;  // pinned host memory is host memory
    a.Add(DType::kF32, {2, 1, 4}).device = {kDLCUDAHost, 1};
    EXPECT_EQ(Bind(spec, a).Error(), "");
  }
  {
    Args a;  // more than 2^31 elements
    a.Add(DType::kF32, {int64_t{1} << 40, 1, 4}, {4, 4, 1});
    const Bound b = Bind(spec, a);
    EXPECT_EQ(b.Error(), "");
    EXPECT_EQ(b.symbols[0], int64_t{1} << 40);
  }
}

TEST(BindArgs, ResultsComeFromTheCallersAllocator) {
  struct Seen {
    int32_t index = -1;
    std::vector<int64_t> shape, strides;
    std::string text;
  } seen;
  CinnCallEnv env = CpuEnv();
  env.context = &seen;
  env.alloc = [](void* context, int32_t index, DLTensor* t) {
    auto& s = *static_cast<Seen*>(context);
    s.index = index;
    s.shape.assign(t->shape, t->shape + t->ndim);
    s.strides.assign(t->strides, t->strides + t->ndim);
    s.text = Describe(*t);
    t->data = memory;
    t->byte_offset = 64;
    return 0;
  };
  ArgSpec spec = Mlp();
  spec.args[4].index = 3;
  Args a = MlpArgs(7);
  a.values[4] = {};
  const Bound b = Bind(spec, a, env);
  EXPECT_EQ(b.Error(), "");
  EXPECT_EQ(b.pointers[4], memory + 64);
  EXPECT_EQ(seen.index, 3);
  EXPECT_EQ(seen.shape, (std::vector<int64_t>{7, 8}));
  EXPECT_EQ(seen.strides, (std::vector<int64_t>{8, 1}));
  EXPECT_EQ(seen.text, "f32[7,8] on cpu");

  ArgSpec huge;
  huge.function = "huge";
  huge.symbols = {{"n", 0, INT64_MAX, 1}};
  const Dim n = SymbolDim(0);
  huge.args = {Input("x", DType::kI8, {n}), {"r", ArgRole::kResult, 0, DType::kF32, {n, n}, {}, 1}};
  Args h;
  h.Add(DType::kI8, {int64_t{1} << 40});
  h.AddNone();
  EXPECT_EQ(Bind(huge, h, env).Error(), "huge: result 'r': the size of f32[n,n] does not fit in 64 bits");
  huge.args[1].shape = {{{DimOp::kSymbol, 0}, {DimOp::kConst, 9}, {DimOp::kSub, 0}}};
  h.tensors[0].shape[0] = 4;
  EXPECT_EQ(Bind(huge, h, env).Error(), "huge: result 'r': dimension 0 of f32[n-9] is -5");
}

TEST(BindArgs, ResultsOverlapNothing) {
  const Dim n = SymbolDim(0);
  ArgSpec spec;
  spec.function = "f";
  spec.symbols = {{"n", 0, INT64_MAX, 1}};
  spec.args = {Input("x", DType::kF32, {n}),
               Input("y", DType::kF32, {n, ConstDim(2)}, {ConstDim(8), ConstDim(1)}),
               {"r", ArgRole::kResult, 0, DType::kF32, {n}, {}, 1},
               {"q", ArgRole::kResult, 1, DType::kF32, {n}, {}, 1}};
  // Byte offsets of the four, of 4 elements each (y: from its first to its last 104 bytes).
  struct Case {
    int64_t x, y, r, q;
    const char* error;
  };
  const Case cases[] = {
      {0, 1000, 2000, 3000, ""},
      {0, 16, 120, 136, ""},  // one after another
      {0, 0, 200, 300, ""},   // inputs may overlap
      {0, 1000, 0, 3000, "f: result 'r': its memory overlaps that of argument 'x'"},
      {0, 1000, 12, 3000, "f: result 'r': its memory overlaps that of argument 'x'"},
      {16, 1000, 4, 3000, "f: result 'r': its memory overlaps that of argument 'x'"},
      {0, 1000, 2000, 1100, "f: result 'q': its memory overlaps that of argument 'y'"},
      {0, 1000, 2000, 1104, ""},
      {0, 1000, 2000, 2012, "f: result 'q': its memory overlaps that of result 'r'"},
  };
  for (const Case& c : cases) {
    Args a;
    a.Add(DType::kF32, {4}).data = memory + c.x;
    a.Add(DType::kF32, {4, 2}, {8, 1}).data = memory + c.y;
    a.Add(DType::kF32, {4}).data = memory + c.r;
    a.Add(DType::kF32, {4}).data = memory + c.q;
    EXPECT_EQ(Bind(spec, a).Error(), c.error);
  }
  Args empty;
  for (int i = 0; i < 4; ++i) empty.Add(DType::kF32, i == 1 ? std::vector<int64_t>{0, 2} : std::vector<int64_t>{0});
  EXPECT_EQ(Bind(spec, empty).Error(), "");
}

TEST(BindArgs, UnpreparedSlotsAreAnError) {
  ArgSpec spec = Mlp();
  spec.args.push_back({"w.packed", ArgRole::kPrepared, 0, DType::kF32, {}, {}, 1});
  const Bound b = Bind(spec, MlpArgs(2));
  EXPECT_EQ(b.code, -static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(b.Error(), "mlp: 'w.packed' is not prepared; call prepare first");
}

TEST(BindArgs, ReleaseIsOptional) {
  CinnCallEnv env = CpuEnv();
  cinn_release_argument(&env, 3);
  int32_t released = -1;
  env.context = &released;
  env.release = [](void* context, int32_t index) { *static_cast<int32_t*>(context) = index; };
  cinn_release_argument(&env, 3);
  EXPECT_EQ(released, 3);
}

// Random specs: what was made from the spec binds, and one changed dimension is always found.
TEST(BindArgs, RandomShapes) {
  std::mt19937_64 random(11);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  int found = 0;
  for (int round = 0; round < 3000; ++round) {
    ArgSpec spec;
    spec.function = "f";
    const int num_symbols = 1 + below(3);
    std::vector<int64_t> values;
    Args args;
    for (int s = 0; s < num_symbols; ++s) {
      spec.symbols.push_back({Cat("s", s), 0, 1000, 1});
      values.push_back(below(20));
      spec.args.push_back(Input(Cat("source", s), DType::kF32, {SymbolDim(s)}));
      args.Add(DType::kF32, {values.back()});
    }
    for (int i = 0; i < 4; ++i) {
      std::vector<Dim> dims;
      std::vector<int64_t> shape;
      for (int64_t d = below(5); d > 0; --d) {
        const int a = below(num_symbols), b = below(num_symbols);
        const int64_t c = 1 + below(5);
        switch (below(6)) {
          case 0:
            dims.push_back(ConstDim(c)), shape.push_back(c);
            break;
          case 1:
            dims.push_back(SymbolDim(a)), shape.push_back(values[a]);
            break;
          case 2:
            dims.push_back(
                {{DimOp::kSymbol, a}, {DimOp::kSymbol, b}, {DimOp::kMul, 0}, {DimOp::kConst, c}, {DimOp::kAdd, 0}});
            shape.push_back(values[a] * values[b] + c);
            break;
          case 3:
            dims.push_back({{DimOp::kSymbol, a}, {DimOp::kConst, c}, {DimOp::kFloorDiv, 0}});
            shape.push_back(values[a] / c);
            break;
          case 4:
            dims.push_back({{DimOp::kSymbol, a}, {DimOp::kConst, c}, {DimOp::kFloorMod, 0}});
            shape.push_back(values[a] % c);
            break;
          default:
            dims.push_back(
                {{DimOp::kSymbol, a}, {DimOp::kConst, -1}, {DimOp::kMul, 0}, {DimOp::kConst, 20}, {DimOp::kAdd, 0}});
            shape.push_back(20 - values[a]);
        }
      }
      spec.args.push_back(Input(Cat("x", i), DType::kF32, dims));
      args.Add(DType::kF32, shape);
    }
    const Bound good = Bind(spec, args);
    ASSERT_EQ(good.Error(), "");
    for (int s = 0; s < num_symbols; ++s) ASSERT_EQ(good.symbols[s], values[s]);
    auto& victim = args.tensors[num_symbols + below(4)];
    if (victim.shape.empty()) continue;
    const int64_t d = below(victim.shape.size());
    victim.shape[d] += 1 + below(3);
    const Bound bad = Bind(spec, args);
    ASSERT_LT(bad.code, 0);
    EXPECT_NE(bad.Error().find(Cat("dimension ", d, " is ", victim.shape[d], ", expected ")), std::string::npos)
        << bad.Error();
    ++found;
  }
  EXPECT_GT(found, 1000);
}

TEST(BindArgs, TakesLittleTime) {
  const std::string bytes = *EncodeArgSpec(Mlp());
  const Args args = MlpArgs(5);
  const CinnCallEnv env = CpuEnv();
  void* pointers[8];
  int64_t symbols[8];
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 2000; ++i) {
      ASSERT_EQ(cinn_bind_args(&cinn_device_x86_64, bytes.data(), bytes.size(), nullptr, args.values.data(), 5, &env,
                               pointers, symbols),
                0);
    }
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 2000);
  }
  RecordProperty("nanoseconds", static_cast<int>(best * 1e9));
  std::printf("bind_args, 5 arguments: %.0f ns\n", best * 1e9);
  EXPECT_LT(best, 5e-6);  // sanitizers and busy machines included; the goal is 0.3 us
}

}  // namespace
}  // namespace cinn_like
