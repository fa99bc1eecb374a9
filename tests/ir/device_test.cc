// A device is data to the loop level: its name in an entry's text, and the limits of its launches.
#include <gtest/gtest.h>

#include "ir/interpreter.h"
#include "ir/lower.h"
#include "ir/passes/insert_barriers.h"
#include "ir/passes/lower_blocks.h"
#include "ir/passes/lower_thread_reductions.h"
#include "ir/passes/lower_thread_scans.h"
#include "ir/passes/place_buffers.h"

namespace cinn_like::ir {
namespace {

const DeviceKind& Dpu() {
  static const auto* kind = [] {
    auto* k = new DeviceKind;
    k->name = "dpu";
    k->type = kDLExtDev;
    k->has_kernels = true;
    k->limits = {.grid = {64, 1, 1}, .block = {16, 1, 1}, .threads = 16, .warp = 1, .shared_bytes = 0};
    k->rows = {{"one", {4, 16, 1, 2, 3, 0, 8, 1}}};
    return k;
  }();
  return *kind;
}

PassContext ContextFor(std::string_view target) {
  const DeviceKind* const kinds[] = {&HostKind(), &CudaKind(), &Dpu()};
  return {{}, *Target::Parse(target, kinds), "test"};
}

constexpr char kEntry[] = R"(func @f entry dpu (x: f32[n, 32], y: f32[n, 32] out) where n in 1..64 {
  call @g(&x[0, 0], &y[0, 0], n)
}

func @g(x: f32[n, 32], y: f32[n, 32], n: i64) where n in 1..64 {
  for b in 0..n @blockIdx.x {
    for t in 0..16 @threadIdx.x {
      y[b, t] = x[b, t]
    }
  }
}
)";

TEST(Device, AnEntrySaysItsName) {
  const StatusOr<Module> m = ParseModule(kEntry);
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_EQ(m->funcs[0].device, "dpu");
  EXPECT_EQ(m->funcs[1].device, "");
  EXPECT_EQ(Print(*m), kEntry);
  Func internal = m->funcs[1];
  internal.device = "dpu";
  EXPECT_NE(Message(Verify(internal)).find("only an entry function has a device"), std::string::npos);
}

TEST(Device, LoweringWritesItsNameAndRefusesAnother) {
  std::string text = kEntry;
  text.erase(text.find("dpu "), 4);
  const StatusOr<Module> lowered = LowerModule(*ParseModule(text), ContextFor("dpu"));
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_TRUE(Print(*lowered).starts_with("func @f entry dpu (")) << Print(*lowered);
  EXPECT_NE(lowered->Find("g_kernel"), nullptr);
  EXPECT_EQ(LowerModule(*ParseModule("func @f entry (x: f32[4]) {\n}\n"), ContextFor("cpu"))->funcs[0].device, "");
  EXPECT_EQ(Message(LowerModule(*ParseModule(kEntry), ContextFor("cuda -arch=sm_90a")).status()),
            "entry function @f is for device 'dpu', the target is 'cuda -arch=sm_90a'");
  EXPECT_EQ(Message(LowerModule(*ParseModule(kEntry), ContextFor("cpu")).status()),
            "entry function @f is for device 'dpu', the target is 'x86_64 -mcpu=native'");
}

TEST(Device, LaunchesHaveItsLimits) {
  std::string text = kEntry;
  text.replace(text.find("0..16"), 5, "0..32");
  EXPECT_EQ(Message(LowerModule(*ParseModule(text), ContextFor("dpu")).status()),
            "function g: the extent of threadIdx.x is at most 16, got 32");
}

TEST(Device, BlocksShareWhatItHas) {
  const auto error = [](const std::string& first) {
    std::string text = kEntry;
    const size_t at = text.find("      y[b, t]");
    return Message(LowerModule(*ParseModule(text.insert(at, first)), ContextFor("dpu")).status());
  };
  EXPECT_EQ(error("alloc s: f32[16] @shared\ns[t] = 1.0\n"),
            "function g: memory s is shared; blocks of this device share none");
  EXPECT_EQ(error("barrier\n"), "function g: a barrier; blocks of this device have none");
}

// Threads' loops that a pass has lowered, so that the interpreter can judge them.
StatusOr<Func> WithBarriers(StatusOr<Func> f, const LaunchLimits& limits) {
  RETURN_IF_ERROR(f.status());
  ASSIGN_OR_RETURN(Func lowered, LowerBlocks(*std::move(f)));
  ASSIGN_OR_RETURN(lowered, PlaceBuffers(std::move(lowered)));
  return InsertBarriers(std::move(lowered), limits);
}

// Warps of any width, down to none, give the same sum.
TEST(Device, ReductionsOverThreadsNeedNoShuffles) {
  constexpr char kSum[] = R"(func @f(x: f32[256], y: f32[1]) {
  for t in 0..256 @threadIdx.x {
    block s(u in 0..1 = 0, r reduce 0..256 = t) init { y[u] = 0.0 } {
      y[u] = y[u] + x[r]
    }
  }
}
)";
  for (const int64_t warp : {1, 8, 32, 64}) {
    LaunchLimits limits;
    limits.warp = warp;
    const StatusOr<Func> f = WithBarriers(LowerThreadReductions(*ParseFunc(kSum), limits), limits);
    ASSERT_TRUE(f.ok()) << f.status();
    const std::string text = Print(*f);
    // 8 warps of 32 are joined by one of them; 32 of 8 by none.
    EXPECT_EQ(text.find("shuffle_xor") != text.npos, warp >= 32) << warp << text;
    EXPECT_EQ(text.find(Cat("i32(", warp / 2, ")")) != text.npos, warp >= 32) << warp << text;
    HostArray x(DType::kF32, {256}), y(DType::kF32, {1});
    for (int i = 0; i < 256; ++i) x.Set(i, i);
    ASSERT_TRUE(Interpret(*f, {&x, &y}, {}, {.limits = limits}).ok()) << text;
    EXPECT_EQ(y.Get(0), 255 * 128) << warp << text;
  }
}

// Data loops inside of a thread's own: it has several results, and threads exchange all of them at once.
TEST(Device, ThreadsReduceSeveralResultsTogether) {
  for (const char* axis : {"threadIdx.x", "threadIdx.y"}) {
    const Func given = *ParseFunc(Cat(R"(func @f(x: f32[3, 2, 64, 5], y: f32[3, 2]) {
  for p in 0..3 @blockIdx.x {
    for t in 0..64 @)",
                                      axis, R"( {
      for u in 0..2 @unrolled {
        for k in 0..5 {
          block s(i in 0..3 = p, j in 0..2 = u, r reduce 0..64 = t, q reduce 0..5 = k) init { y[i, j] = 0.0 } {
            y[i, j] = y[i, j] + x[i, j, r, q]
          }
        }
      }
    }
  }
}
)"));
    const LaunchLimits limits;
    const StatusOr<Func> f = WithBarriers(LowerThreadReductions(given, limits), limits);
    ASSERT_TRUE(f.ok()) << f.status();
    HostArray x(DType::kF32, {3, 2, 64, 5}), y(DType::kF32, {3, 2});
    for (int i = 0; i < 3 * 2 * 64 * 5; ++i) x.Set(i, i % 320 + i / 320);
    const Status ran = Interpret(*f, {&x, &y}, {}, {.limits = limits});
    ASSERT_TRUE(ran.ok()) << ran << Print(*f);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(y.Get(i), 319 * 160 + i * 320) << Print(*f);
  }
}

constexpr char kRunningSum[] = R"(func @f(x: f32[2, 250], y: f32[2, 250]) {
  alloc s: f64[2] @local
  for i in 0..2 @threadIdx.y {
    for o in 0..2 {
      for t in 0..64 @threadIdx.x {
        for u in 0..2 @unrolled {
          block b(v in 0..2 = i, r reduce 0..250 = o * 128 + t * 2 + u) if o * 128 + t * 2 + u < 250 init {
            s[v] = f64(0.0)
          } {
            let w = s[v] + f64(x[v, r])
            s[v] = w
            y[v, r] = f32(w)
          }
        }
      }
    }
  }
}
)";

// Warps of any width give the same running sums.
TEST(Device, ThreadsScanTogether) {
  for (const int64_t warp : {1, 4, 32, 64, 128}) {
    LaunchLimits limits;
    limits.warp = warp;
    const StatusOr<Func> f = WithBarriers(LowerThreadScans(*ParseFunc(kRunningSum), limits), limits);
    ASSERT_TRUE(f.ok()) << f.status();
    EXPECT_EQ(Print(*f).find("@shared") == std::string::npos, warp >= 64) << warp << Print(*f);
    HostArray x(DType::kF32, {2, 250}), y(DType::kF32, {2, 250});
    for (int i = 0; i < 500; ++i) x.Set(i, i % 250 + 3 * (i / 250));
    const Status ran = Interpret(*f, {&x, &y}, {}, {.limits = limits});
    ASSERT_TRUE(ran.ok()) << ran << Print(*f);
    for (int i = 0; i < 500; ++i) {
      const int r = i % 250;
      ASSERT_EQ(y.Get(i), r * (r + 1) / 2 + 3 * (i / 250) * (r + 1)) << i << " " << warp << Print(*f);
    }
  }
}

// Of columns side by side a warp has one thread each, or several, lanes apart, or what no power of two lets it count.
TEST(Device, ThreadsScanColumnsTogether) {
  struct {
    int columns, threads, parts;
  } cases[] = {{64, 4, 4}, {32, 2, 2}, {8, 8, 2}, {8, 3, 3}, {4, 6, 3}, {12, 4, 4}, {1, 48, 3}, {2, 16, 1}};
  for (const auto& [columns, threads, parts] : cases) {
    const int64_t turn = 3 * threads;
    const std::string row = Cat("o * ", turn, " + t * 3 + u"), shape = Cat("i32[100, ", columns, "]");
    const Func given =
        *ParseFunc(Cat("func @f(x: ", shape, ", y: ", shape, ") {\nalloc s: i32[", columns, "] @local\nfor c in 0..",
                       columns, " @threadIdx.x {\nfor o in 0..", (100 + turn - 1) / turn, " {\nfor t in 0..", threads,
                       " @threadIdx.y {\nfor u in 0..3 @unrolled {\nblock b(v in 0..", columns,
                       " = c, r reduce 0..100 = ", row, ") if ", row,
                       " < 100 init {\ns[v] = i32(0)\n} {\nlet w = s[v] + x[r, v]\ns[v] = w\n"
                       "y[r, v] = w\n}\n}\n}\n}\n}\n}\n"));
    const LaunchLimits limits;
    const StatusOr<Func> f = WithBarriers(LowerThreadScans(given, limits), limits);
    ASSERT_TRUE(f.ok()) << f.status();
    EXPECT_EQ(Print(*f).find(Cat("i32[", parts, ", ", columns, "] @shared")) != std::string::npos, parts > 1)
        << Print(*f);
    HostArray x(DType::kI32, {100, columns}), y(DType::kI32, {100, columns});
    for (int i = 0; i < 100 * columns; ++i) x.Set(i, i % 11 - 3);
    const Status ran = Interpret(*f, {&x, &y}, {}, {.limits = limits});
    ASSERT_TRUE(ran.ok()) << ran << Print(*f);
    for (int c = 0; c < columns; ++c) {
      double sum = 0;
      for (int r = 0; r < 100; ++r) {
        sum += x.Get(r * columns + c);
        ASSERT_EQ(y.Get(r * columns + c), sum) << r << " " << c << Print(*f);
      }
    }
  }
}

TEST(Device, ScansThatThreadsCannotShare) {
  const auto refusal = [](std::string_view from, std::string_view to) {
    std::string text = kRunningSum;
    const size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return Message(LowerThreadScans(*ParseFunc(text.replace(at, from.size(), to))).status());
  };
  EXPECT_EQ(refusal("0..64 @threadIdx.x", "0..64 @clusterIdx.x"), "block b: a scan by 64 iterations of clusterIdx.x");
  EXPECT_EQ(refusal("f64[2] @local", "f64[2] @global"), "block b: threads would share what runs, s");
  EXPECT_EQ(refusal("s[v] + f64(x[v, r])", "s[v] * s[v] + f64(x[v, r])"),
            "block b: s[v] * s[v] + f64(x[v, r]) is no associative combination");
  EXPECT_EQ(refusal("for o in 0..2 {", "for o in 0..2 @blockIdx.x {"), "block b: loop o around thread loop t");
}

}  // namespace
}  // namespace cinn_like::ir
