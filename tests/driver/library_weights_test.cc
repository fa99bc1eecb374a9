// Weights in the file of an exported library: calls without them give what the JIT gives, bit for bit; equal ones are
// there once; whatever is wrong with them is an error.
#include "runtime/library_weights.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/match.h"
#include "cinn_like/driver.h"
#include "ir/host_array.h"
#include "runtime/library.h"
#include "runtime/library_format.h"
#include "tests/golden_file.h"

namespace cinn_like {
namespace {
namespace fs = std::filesystem;

using absl::StrContains;

// %w is packed for the product and read as it is by the gather; %t equals it; %s is read with strides.
constexpr char kGraph[] =
    R"(graph @f(%i: i64[n], %w: f32[64,128] static, %x: f32[n,64], %t: f32[64,128] static, %s: f32[128,3] strides [1,128] static) where n in 1..64 {
  %0 = check_index(%i) {size=64} : i64[n]
  %1 = gather(%w, %0) {axis=0} : f32[n,128]
  %2 = matmul(%x, %w) : f32[n,128]
  %3 = matmul(%x, %t) : f32[n,128]
  %4 = add(%1, %2) : f32[n,128]
  %5 = add(%3, %4) : f32[n,128]
  %6 = slice(%s) {axis=1, begin=1, end=2, step=1} : f32[128,1]
  %7 = reshape(%6) {shape=[128]} : f32[128]
  %8 = add(%5, %7) : f32[n,128]
  return %8, %1
}
)";
constexpr int64_t kRows = 7;

class LibraryWeightsTest : public testing::Test {
 protected:
  LibraryWeightsTest() : folder_(fs::temp_directory_path() / "library_weights_XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    std::mt19937 rng(1);
    std::uniform_real_distribution<double> random(-1, 1);
    for (const auto& [dtype, shape] :
         std::vector<std::pair<DType, std::vector<int64_t>>>{{DType::kI64, {kRows}},
                                                             {DType::kF32, {64, 128}},
                                                             {DType::kF32, {kRows, 64}},
                                                             {DType::kF32, {64, 128}},
                                                             {DType::kF32, {128, 3}},
                                                             {DType::kF32, {kRows, 128}},
                                                             {DType::kF32, {kRows, 128}}}) {
      arrays_.emplace_back(dtype, shape);
    }
    for (ir::HostArray& a : arrays_) {
      for (int64_t i = 0; i < a.NumElements(); ++i) a.dtype == DType::kI64 ? a.SetInt(i, 9 * i) : a.Set(i, random(rng));
    }
    arrays_[3].bytes = arrays_[1].bytes;
    for (ir::HostArray& a : arrays_) {
      const DLDataType type = {InfoOf(a.dtype).dlpack_code, static_cast<uint8_t>(InfoOf(a.dtype).bits), 1};
      tensors_.push_back(
          {a.bytes.data(), {kDLCPU, 0}, static_cast<int32_t>(a.shape.size()), type, a.shape.data(), nullptr, 0});
    }
    tensors_[4].strides = strides_;
    for (DLTensor& t : tensors_) {
      args_.push_back({kCinnTensor, 0, {}});
      args_.back().tensor = &t;
    }
    env_.size = sizeof(env_);
    env_.device = {kDLCPU, 0};
  }
  ~LibraryWeightsTest() override { fs::remove_all(folder_); }

  static std::unique_ptr<CompiledFunction> Compile(const std::string& target = "cpu") {
    CompileOptions options;
    options.disable_cache = true;
    const StatusOr<hlir::Graph> graph = hlir::Parse(kGraph);
    EXPECT_TRUE(graph.ok()) << graph.status();
    auto compiled = CompileGraph(*graph, *Target::Parse(target), options);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    return *std::move(compiled);
  }
  std::vector<CinnValue> Weights() const { return {args_[1], args_[3], args_[4]}; }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }
  std::string Export() const {
    const Status exported = Compile()->ExportLibrary(Path("f.so"), Weights());
    EXPECT_TRUE(exported.ok()) << exported;
    return Path("f.so");
  }

  std::string folder_;
  std::vector<ir::HostArray> arrays_;
  std::vector<DLTensor> tensors_;
  int64_t strides_[2] = {1, 128};
  std::vector<CinnValue> args_;
  CinnCallEnv env_{};
};

TEST_F(LibraryWeightsTest, CallsNeedNoWeights) {
  const std::string path = Export();
  const auto jit = Compile();
  ASSERT_TRUE(jit->Prepare(Weights(), env_).ok());
  ASSERT_EQ(jit->entry()(jit->self(), args_.data(), 7, &env_), 0);
  const std::vector<ir::HostArray> expected = {arrays_[5], arrays_[6]};
  for (const int i : {1, 3, 4, 5, 6}) std::fill(arrays_[i].bytes.begin(), arrays_[i].bytes.end(), 0xff);

  CinnLibrary* lib = nullptr;
  ASSERT_EQ(CinnLibraryOpen(path.c_str(), &lib), 0) << CinnLibraryError();
  const CinnFunctionPtr f = CinnLibraryLookup(lib, "f");
  void* self = nullptr;
  ASSERT_EQ(CinnLibraryPrepare(lib, "f", nullptr, 0, &env_, &self), 0) << CinnLibraryError();
  const std::string signature = "@f(%i: i64[n], %x: f32[n,64]) where n in 1..64 -> f32[n,128], f32[n,128]";
  EXPECT_TRUE(StrContains(CinnLibraryDescription(lib), Cat("\n", signature, "\n  target ")))
      << CinnLibraryDescription(lib);
  EXPECT_TRUE(StrContains(CinnLibraryInfo(lib), R"("functions":[{"name":"f","params":[{"name":"i","dtype":"i64",)"))
      << CinnLibraryInfo(lib);

  void* other = &lib;
  EXPECT_LT(CinnLibraryPrepare(lib, "f", &args_[1], 1, &env_, &other), 0);
  EXPECT_STREQ(CinnLibraryError(), "f: its weights are in the file: expected no others, got 1");
  EXPECT_EQ(other, nullptr);

  CinnLibraryClose(lib);  // `self` keeps it loaded
  std::vector<CinnValue> given = {args_[0], args_[2], args_[5], args_[6]};
  ASSERT_EQ(f(self, given.data(), 4, &env_), 0) << CinnLibraryError();
  EXPECT_EQ(arrays_[5].bytes, expected[0].bytes);
  EXPECT_EQ(arrays_[6].bytes, expected[1].bytes);
  EXPECT_LT(f(self, given.data(), 3, &env_), 0);
  EXPECT_EQ(CinnLibraryError(), Cat("f: expected 2 arguments and 2 results, those of ", signature, ", got 3"));
  EXPECT_LT(f(nullptr, given.data(), 4, &env_), 0);
  std::swap(given[0], given[1]);
  EXPECT_LT(f(self, given.data(), 4, &env_), 0);
  EXPECT_TRUE(StrContains(CinnLibraryError(), "f: argument 'i': expected i64[n], got f32[7,64]")) << CinnLibraryError();
  CinnLibraryRelease(self);
}

// The values are ours, so tvm-ffi itself need not be here, but for what it makes results of.
TEST_F(LibraryWeightsTest, TvmFfiCallsIt) {
  const std::string path = Export();
  const auto jit = Compile();
  ASSERT_TRUE(jit->Prepare(Weights(), env_).ok());
  ASSERT_EQ(jit->entry()(jit->self(), args_.data(), 7, &env_), 0);
  const std::vector<uint8_t> expected = arrays_[5].bytes;
  std::fill(arrays_[5].bytes.begin(), arrays_[5].bytes.end(), 0xff);
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  using Function = int32_t (*)(void* self, const CinnValue* args, int32_t num_args, CinnValue* result);
  const auto f = reinterpret_cast<Function>(dlsym(handle, "__tvm_ffi_f"));
  ASSERT_NE(f, nullptr);
  const std::vector<CinnValue> given = {args_[0], args_[2], args_[5], args_[6]};
  CinnValue result{};
  ASSERT_EQ(f(nullptr, given.data(), 4, &result), 0) << CinnLibraryError();
  EXPECT_EQ(arrays_[5].bytes, expected);
  EXPECT_EQ(result.tag, kCinnNone);
  EXPECT_EQ(f(nullptr, given.data(), 3, &result), -1);
  EXPECT_EQ(f(nullptr, given.data(), 2, &result), -1);  // nobody makes results
  EXPECT_TRUE(StrContains(CinnLibraryError(), "allocator failed")) << CinnLibraryError();

  // Without weights in it.
  ASSERT_TRUE(jit->ExportLibrary(Path("bare.so"), {}).ok());
  handle = dlopen(Path("bare.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  EXPECT_EQ(reinterpret_cast<Function>(dlsym(handle, "__tvm_ffi_f"))(nullptr, args_.data(), 7, &result), -1);
}

// Packed once, as it is once, though two parameters hold it.
TEST_F(LibraryWeightsTest, EqualWeightsAreThereOnce) {
  const StatusOr<LibraryFile> file = ReadLibrary(ReadFile(Export()));
  ASSERT_TRUE(file.ok()) << file.status();
  const LibraryWeights& weights = *file->info.functions.at(0).variants.at(0).weights;
  ASSERT_EQ(weights.slots.size(), 2u);  // of both products
  EXPECT_EQ(weights.slots[0].offset, weights.slots[1].offset);
  EXPECT_LE(weights.bytes, 2 * 64 * 128 * 4 + 128 * 4 * 4);
  ASSERT_EQ(weights.params.size(), 5u);
  EXPECT_EQ(weights.params[1].kind, WeightedParam::Kind::kWeight);
  EXPECT_EQ(weights.params[3].kind, WeightedParam::Kind::kPacked);
  EXPECT_EQ(weights.params[4].strides, (std::vector<int64_t>{1, 128}));
  const StatusOr<LibraryWeights> again = LibraryWeights::Decode(weights.Encode());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->Encode(), weights.Encode());
}

TEST_F(LibraryWeightsTest, DamageIsAnError) {
  const std::string good = ReadFile(Export());
  std::string bad = good;
  const std::string piece(reinterpret_cast<const char*>(arrays_[1].bytes.data()), 64);
  const size_t at = bad.find(piece);
  ASSERT_NE(at, bad.npos);
  bad[at + 1] ^= 1;
  CinnLibrary* lib = nullptr;
  EXPECT_LT(CinnLibraryOpen(Write("bad.so", bad).c_str(), &lib), 0);
  EXPECT_TRUE(StrContains(CinnLibraryError(), "is damaged: it does not match its checksum")) << CinnLibraryError();
  for (size_t size = 0; size < good.size(); size += 997) EXPECT_FALSE(ReadLibrary(good.substr(0, size)).ok()) << size;

  // Descriptions that no one but an enemy writes: none leads out of the block.
  for (const char* text :
       {"", "weights", "weights 64 1", "weights -1", "weights 64\nslot 1 1", "weights 64\nslot 0 65",
        "weights 64\nslot 9223372036854775807 1", "weights 64\nslot 64", "weights 64\ngiven 1",
        "weights 64\nweight f32 0 64 1 15 1", "weights 64\nweight f32 0 64 1 16 2", "weights 64\nweight f31 0 4 0",
        "weights 64\nweight f32 0 64 2 16 1 1", "weights 64\nweight f32 0 4 33", "weights 64\nheavy"}) {
    EXPECT_FALSE(LibraryWeights::Decode(text).ok()) << text;
  }
  std::mt19937 rng(3);
  for (int i = 0; i < 300; ++i) {
    std::string text = "weights 64\nslot 0 64\ngiven\nweight f32 0 64 2 4 4 4 1\n";
    text[rng() % text.size()] = static_cast<char>(rng());
    if (const auto weights = LibraryWeights::Decode(text); weights.ok()) {
      for (const WeightPiece& s : weights->slots) EXPECT_LE(s.offset + s.bytes, weights->bytes) << text;
    }
  }
}

TEST_F(LibraryWeightsTest, WrongWeightsAreRefused) {
  const auto jit = Compile();
  const auto error = [&](const std::vector<CinnValue>& weights) {
    return Message(jit->ExportLibrary(Path("bad.so"), weights));
  };
  EXPECT_EQ(error({args_[1], args_[3]}), "expected 3 weights, one for each static parameter, got 2");
  EXPECT_EQ(error({args_[1], args_[0], args_[4]}), "weight 't': expected f32[64,128] on the host, got i64[7] on cpu");
  EXPECT_EQ(error({args_[1], CinnValue{}, args_[4]}), "weight 't': expected a tensor");
  tensors_[4].strides = nullptr;
  EXPECT_EQ(error(Weights()), "weight 's': expected f32[128,3] strides [1,128] on the host, got f32[128,3] on cpu");
  EXPECT_FALSE(fs::exists(Path("bad.so")));
  const StatusOr<hlir::Graph> graph = hlir::Parse(kGraph);
  const auto bid = BidOnGraph(*graph, *Target::Parse("cpu"), CompileOptions());
  ASSERT_TRUE(bid.ok());
  tensors_[4].strides = strides_;
  if ((*bid)->entry() == nullptr) {
    EXPECT_EQ(Message((*bid)->ExportLibrary(Path("bad.so"), Weights())),
              "weights are prepared by code, which is not finished");
  }
}

}  // namespace
}  // namespace cinn_like
