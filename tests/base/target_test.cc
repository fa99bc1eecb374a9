#include "cinn_like/base/target.h"

#include <gtest/gtest.h>

#include <random>

namespace cinn_like {
namespace {

std::string Error(std::string_view text) { return Message(Target::Parse(text).status()); }

TEST(Target, CanonicalTexts) {
  for (const char* text :
       {"x86_64 -mcpu=native", "x86_64 -mcpu=native -num-threads=2", "cuda -arch=native",
        "cuda -arch=sm_90a -libs=cublas", "x86_64 -mcpu=sapphirerapids -features=+amx-bf16,-avx512fp16 -cores=4",
        "cuda -arch=sm_90a -sm-count=114 -bandwidth=4800", "opencl -arch=native", "opencl -arch=generic -cores=64",
        "opencl -arch=generic -subgroup-size=16"}) {
    const StatusOr<Target> t = Target::Parse(text);
    ASSERT_TRUE(t.ok()) << t.status();
    EXPECT_EQ(t->Print(), text);
  }
}

TEST(Target, OtherSpellingsPrintCanonically) {
  EXPECT_EQ(Target::Parse("cpu")->Print(), "x86_64 -mcpu=native");
  EXPECT_EQ(Target::Parse("cpu  -num-threads=3\t-mcpu=znver4")->Print(), "x86_64 -mcpu=znver4 -num-threads=3");
  EXPECT_EQ(Target::Parse("cuda -libs=cublas -arch=sm_80 -sm-count=108")->Print(), "cuda -arch=sm_80 -libs=cublas");
}

TEST(Target, NumbersComeFromTheRow) {
  const Target h = *Target::Parse("cuda -arch=sm_90a");
  EXPECT_EQ(h.cores, 132);
  EXPECT_EQ(h.shared_bytes, 227 * 1024);
  EXPECT_EQ(Target::Parse("x86_64 -mcpu=znver2")->vector_bytes, 32);
  EXPECT_GE(Target::Parse("cpu")->cores, 1);
  EXPECT_TRUE(Target::Parse("cuda -libs=cublas")->HasLib("cublas"));
  EXPECT_FALSE(Target::Parse("cuda")->HasLib("cublas"));
}

// What was detected or comes from a row is in no printed form, but schedules depend on it.
TEST(Target, CacheKeyHasEveryNumber) {
  for (const char* text : {"cpu", "cuda -arch=sm_90a"}) {
    Target t = *Target::Parse(text);
    const std::string key = t.CacheKey();
    for (const char* option : {t.IsGpu() ? "-sm-count=" : "-cores=", "-vector-bytes=", "-l1-bytes=", "-l2-bytes=",
                               "-bandwidth=", "-registers="}) {
      EXPECT_NE(key.find(option), std::string::npos) << key << option;
    }
    t.cores += 1;
    EXPECT_NE(t.CacheKey(), key);
    t.cores -= 1;
    t.l2_bytes += 1;
    EXPECT_NE(t.CacheKey(), key);
  }
}

TEST(Target, RandomTargetsRoundTrip) {
  std::mt19937 random(7);
  const char* mcpus[] = {"native", "znver3", "haswell", "graniterapids"};
  const char* archs[] = {"native", "sm_75", "sm_90", "sm_120a"};
  for (int i = 0; i < 500; ++i) {
    Target t = *Target::Parse(random() % 2 ? Cat("x86_64 -mcpu=", mcpus[random() % 4])
                                           : Cat("cuda -arch=", archs[random() % 4]));
    if (random() % 2) t.vector_bytes = 16 << random() % 5;
    if (random() % 2) t.l2_bytes = 1 + random() % 100;
    if (!t.HasKernels()) {
      if (random() % 2) t.num_threads = random() % 64;
      for (unsigned k = random() % 3; k > 0; --k) t.features.push_back(Cat(random() % 2 ? "+" : "-", "f", k));
    } else {
      if (random() % 2) t.shared_bytes = random() % 100000;
      if (random() % 2) t.libs = {"cublas"};
    }
    const StatusOr<Target> again = Target::Parse(t.Print());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, t) << t.Print();
    EXPECT_EQ(again->Print(), t.Print());
  }
}

TEST(Target, ErrorsListWhatIsKnown) {
  EXPECT_EQ(Error(""), "target: empty text; expected a kind: cpu, x86_64, cuda, opencl, hip, metal, c");
  EXPECT_EQ(Error("rocm"), "target: unknown kind 'rocm'; known: cpu, x86_64, cuda, opencl, hip, metal, c");
  EXPECT_EQ(Error("cuda sm_90"), "target: expected -option=value, got 'sm_90'");
  EXPECT_EQ(
      Error("cpu -arch=sm_90"),
      "target: x86_64 has no option -arch; known: -mcpu, -features, -framework, -num-threads, -cores, -vector-bytes, "
      "-l1-bytes, -l2-bytes, -bandwidth, -registers");
  // What no code can be made for is no target.
  EXPECT_EQ(Error("vulkan"), "target: unknown kind 'vulkan'; known: cpu, x86_64, cuda, opencl, hip, metal, c");
  EXPECT_EQ(Error("cuda -libs=cudnn"), "target: option -libs: unknown library 'cudnn'; known: cublas");
  EXPECT_TRUE(
      Error("cuda -arch=sm_91").starts_with("target: option -arch: unknown arch 'sm_91'; known: native, sm_75"));
  EXPECT_TRUE(Error("cpu -mcpu=m1").starts_with("target: option -mcpu: unknown CPU 'm1'; known: native, x86-64,"));
  EXPECT_EQ(Error("cuda -libs=cublas,mkl"), "target: option -libs: unknown library 'mkl'; known: cublas");
  EXPECT_EQ(Error("cpu -features=avx2"), "target: option -features: expected +name or -name, got 'avx2'");
  EXPECT_EQ(Error("cpu -num-threads=two"),
            "target: option -num-threads: expected an integer from 0 to 65536, got 'two'");
  // What divides by a number, or makes vectors of its size, is not asked to.
  EXPECT_EQ(Error("cpu -vector-bytes=4294967296"),
            "target: option -vector-bytes: expected a power of 2 from 16 to 256, got '4294967296'");
  EXPECT_EQ(Error("cpu -vector-bytes=24"),
            "target: option -vector-bytes: expected a power of 2 from 16 to 256, got '24'");
  EXPECT_EQ(Error("opencl -subgroup-size=24"),
            "target: option -subgroup-size: expected a power of 2 from 1 to 1024, got '24'");
  EXPECT_EQ(Error("cuda -sm-count=0"), "target: option -sm-count: expected an integer from 1 to 65536, got '0'");
  EXPECT_EQ(Error("cuda -sm-count=99999999999999999999"),
            "target: option -sm-count: expected an integer from 1 to 65536, got '99999999999999999999'");
  EXPECT_EQ(Error("cuda -arch=sm_80 -arch=sm_90"), "target: option -arch is given twice");
  EXPECT_EQ(Error("cuda -arch="), "target: option -arch has no value");
}

TEST(Target, ThreadsOfSubgroupsShuffle) {
  EXPECT_EQ(Target::Parse("opencl")->Limits().warp, 1);
  EXPECT_EQ(Target::Parse("opencl -subgroup-size=16")->Limits().warp, 16);
  EXPECT_EQ(Target::Parse("cuda")->Limits().warp, 32);
}

// A device of the caller's is known where its kind is given, and nowhere else.
TEST(Target, KindsOfTheCaller) {
  DeviceKind dpu;
  dpu.name = "dpu";
  dpu.has_kernels = true;
  dpu.limits = {.block = {16, 1, 1}, .threads = 16, .warp = 1, .shared_bytes = 0};
  dpu.rows = {{"one", {4, 16, 1, 2, 3, 0, 8, 1}}, {"two", {8, 16, 1, 2, 3, 0, 8, 1}}};
  dpu.options = {"arch", "cores", "libs"};
  dpu.libs = {"blas"};
  const DeviceKind* const kinds[] = {&HostKind(), &dpu};
  const StatusOr<Target> t = Target::Parse("dpu -arch=two -libs=blas", kinds);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ(t->Print(), "dpu -arch=two -libs=blas");
  EXPECT_EQ(t->cores, 8);
  EXPECT_TRUE(t->HasKernels());
  EXPECT_FALSE(t->IsGpu());
  EXPECT_EQ(Target::Parse("dpu", kinds)->Print(), "dpu -arch=one");
  EXPECT_EQ(Message(Target::Parse("dpu -sm-count=3", kinds).status()),
            "target: dpu has no option -sm-count; known: -arch, -libs, -cores");
  EXPECT_EQ(Message(Target::Parse("dpu -arch=three", kinds).status()),
            "target: option -arch: unknown arch 'three'; known: one, two");
  EXPECT_EQ(Message(Target::Parse("cuda", kinds).status()), "target: unknown kind 'cuda'; known: cpu, x86_64, dpu");
  EXPECT_EQ(Error("dpu"), "target: unknown kind 'dpu'; known: cpu, x86_64, cuda, opencl, hip, metal, c");
}

TEST(Target, ResolvedByKeepsWhatWasSet) {
  const Target device = *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=4800");
  const Target resolved = Target::Parse("cuda -libs=cublas -shared-bytes=1000")->ResolvedBy(device);
  EXPECT_EQ(resolved.Print(), "cuda -arch=sm_90a -libs=cublas -bandwidth=4800 -shared-bytes=1000");
}

}  // namespace
}  // namespace cinn_like
