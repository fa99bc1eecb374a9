#include "ir/passes/split_host_device.h"

#include <gtest/gtest.h>

#include "ir/interpreter.h"

namespace cinn_like::ir {
namespace {

std::string Split(std::string_view text) {
  auto m = ParseModule(text);
  EXPECT_TRUE(m.ok()) << m.status();
  auto r = SplitHostDevice(*m);
  if (!r.ok()) return Message(r.status());
  const std::string printed = Print(*r);
  auto again = ParseModule(printed);
  EXPECT_TRUE(again.ok()) << again.status() << printed;
  if (!again.ok()) return "";
  EXPECT_EQ(Print(*again), printed);
  return printed;
}

// A number that is no symbol is a value of the kernel's, though the launch alone needs it.
TEST(SplitHostDevice, NumbersInExtents) {
  EXPECT_EQ(Split(R"(func @f(y: f32[1], k: i64) {
  for b in 0..k * 2 @blockIdx.x {
    y[0] = 1.0
  }
}
)"),
            R"(func @f(y: f32[1], k: i64) {
  launch @f_kernel grid(k * 2, 1, 1) block(1, 1, 1) shared 0 (k, &y[0])
}

func @f_kernel kernel (k: i64, y: f32[1]) {
  for b in 0..k * 2 @blockIdx.x {
    y[0] = 1.0
  }
}
)");
}

// So is one that a tensor's shape names alone.
TEST(SplitHostDevice, NumbersInShapes) {
  EXPECT_EQ(Split(R"(func @f(y: f32[k, m] strides [m * 2, 1], k: i64, m: i64) where m in 1..64 {
  for b in 0..2 @blockIdx.x {
    y[b, 0] = 1.0
  }
}
)"),
            R"(func @f(y: f32[k, m] strides [m * 2, 1], k: i64, m: i64) where m in 1..64 {
  launch @f_kernel grid(2, 1, 1) block(1, 1, 1) shared 0 (&y[0, 0], k)
}

func @f_kernel kernel (y: f32[k, m] strides [m * 2, 1], k: i64) where m in 1..64 {
  for b in 0..2 @blockIdx.x {
    y[b, 0] = 1.0
  }
}
)");
}

TEST(SplitHostDevice, ClustersOfBlocks) {
  const std::string nest = R"(func @f(x: f32[8, 256], y: f32[8, 256]) {
  for b in 0..8 @blockIdx.x {
    for c in 0..4 @clusterIdx.x {
      for t in 0..64 @threadIdx.x {
        y[b, c * 64 + t] = x[b, c * 64 + t]
      }
    }
  }
}
)";
  const Module m = *ParseModule(nest);
  const auto refused = SplitHostDevice(m);
  EXPECT_EQ(Message(refused.status()), "function f: the extent of clusterIdx.x is at most 1, got 4");
  LaunchLimits limits;
  limits.cluster = 8;
  const auto split = SplitHostDevice(m, limits);
  ASSERT_TRUE(split.ok()) << split.status();
  const std::string text = Print(*split);
  EXPECT_NE(text.find("launch @f_kernel grid(8, 1, 1) block(64, 1, 1) cluster 4 shared 0 (&x[0, 0], &y[0, 0])"),
            text.npos)
      << text;
  EXPECT_EQ(Print(*ParseModule(text)), text);
  HostArray x(DType::kF32, {8, 256}), y(DType::kF32, {8, 256});
  for (int i = 0; i < 8 * 256; ++i) x.Set(i, i);
  EXPECT_EQ(Message(Interpret(*split, "f", {&x, &y})), "@f_kernel: a cluster of 4 blocks");
  ASSERT_TRUE(Interpret(*split, "f", {&x, &y}, {}, {.limits = limits}).ok());
  EXPECT_EQ(x.bytes, y.bytes);
}

TEST(SplitHostDevice, OneKernelPerNest) {
  EXPECT_EQ(Split(R"(func @f(x: f32[n], y: f32[n], n: i64) where n in 1..1024 {
  alloc w: f32[n] @global
  for b in 0..tdiv(n + 255, 256) @blockIdx.x {
    for t in 0..256 @threadIdx.x {
      if b * 256 + t < n {
        w[b * 256 + t] = x[b * 256 + t]
      }
    }
  }
  if n > 5 {
    for c in 0..1 @blockIdx.x {
      for u in 0..32 @threadIdx.x {
        y[u] = w[u]
      }
    }
  }
}
)"),
            R"(func @f(x: f32[n], y: f32[n], n: i64) where n in 1..1024 {
  alloc w: f32[n] @global
  launch @f_kernel grid(tdiv(n + 255, 256), 1, 1) block(256, 1, 1) shared 0 (n, &x[0], &w[0])
  if 5 < n {
    launch @f_kernel_1 grid(1, 1, 1) block(32, 1, 1) shared 0 (&w[0], &y[0])
  }
}

func @f_kernel kernel (n: i64, x: f32[n], w: f32[n]) where n in 1..1024 {
  for b in 0..tdiv(n + 255, 256) @blockIdx.x {
    for t in 0..256 @threadIdx.x {
      if b * 256 + t < n {
        w[b * 256 + t] = x[b * 256 + t]
      }
    }
  }
}

func @f_kernel_1 kernel (w: f32[n], y: f32[n]) where n in 1..1024 {
  for c in 0..1 @blockIdx.x {
    for u in 0..32 @threadIdx.x {
      y[u] = w[u]
    }
  }
}
)");
}

TEST(SplitHostDevice, SmallerLoopsOfAnAxisAreGuarded) {
  const std::string r = Split(R"(func @f(x: f32[64]) {
    for b in 0..4 @blockIdx.x {
      for t in 0..64 @threadIdx.x { x[t] = 1.0 }
      barrier
      for u in 0..32 @threadIdx.x { x[u] = 2.0 }
    }
  })");
  EXPECT_NE(r.find("block(64, 1, 1)"), r.npos) << r;
  EXPECT_NE(r.find("if u < 32 {"), r.npos) << r;
  EXPECT_EQ(r.find("if t"), r.npos) << r;
}

TEST(SplitHostDevice, LargeSharedMemoryIsDynamic) {
  const Module m = *ParseModule(R"(func @f(x: f32[64]) {
    for t in 0..64 @threadIdx.x {
      alloc s: f32[16384] @shared
      alloc s2: f16[9] @shared
      s[t] = x[t]
    }
  })");
  LaunchLimits limits;
  limits.shared_bytes = 65568;
  const auto split = SplitHostDevice(m, limits);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_NE(Print(*split).find("shared 65568 ("), std::string::npos) << Print(*split);
  limits.shared_bytes = 65567;
  EXPECT_EQ(Message(SplitHostDevice(m, limits).status()),
            "function f: a block has at most 65567 bytes of shared memory, got 65568");
}

TEST(SplitHostDevice, Errors) {
  auto body = [](std::string_view s) { return Split(Cat("func @f(x: f32[64], n: i64) where n in 1..9 {", s, "}")); };
  EXPECT_EQ(body("for i in 0..4 { x[i] = 1.0 }"), "function f: the store to x is in no loop bound to a device axis");
  EXPECT_EQ(body("if x[0] < 1.0 { for t in 0..4 @threadIdx.x { x[t] = 1.0 } }"),
            "function f: the load of x is in no loop bound to a device axis");
  EXPECT_EQ(body("for t in 0..n @threadIdx.x { x[t] = 1.0 }"),
            "function f: the extent of threadIdx.x must be constant, got n");
  EXPECT_EQ(body("for t in 0..65 @threadIdx.z { x[t] = 1.0 }"),
            "function f: the extent of threadIdx.z is at most 64, got 65");
  EXPECT_EQ(body("for b in 0..65536 @blockIdx.y { x[b] = 1.0 }"),
            "function f: the extent of blockIdx.y is at most 65535, got 65536");
  EXPECT_EQ(body("for t in 0..64 @threadIdx.x { for u in 0..32 @threadIdx.y { x[t] = 1.0 } }"),
            "function f: a block has at most 1024 threads, got 2048");
  EXPECT_EQ(body("for t in 0..4 @threadIdx.x { for u in 0..4 @threadIdx.x { x[t] = 1.0 } }"),
            "function f: loop u binds threadIdx.x, which a loop around it has");
  EXPECT_EQ(body("for b in 0..4 @blockIdx.x { for c in 0..b @blockIdx.y { x[b] = 1.0 } }"),
            "function f: the extent b of blockIdx.y depends on variables of the kernel");
  EXPECT_NE(body("for b in 0..4 @blockIdx.x { for t in 0..64 @threadIdx.x { x[t] = 1.0 } "
                 "for u in 0..32 @threadIdx.x { barrier } }")
                .find("has a barrier, which all must reach"),
            std::string::npos);
}

}  // namespace
// A launch has the maps that the kernel's tensor copies need, in their order; the interpreter runs what they mean.
TEST(SplitHostDevice, MapsOfTensors) {
  const std::string nest = R"(func @f(x: bf16[n, 64] align 16, y: bf16[n, 64]) where n in 1..4096 {
  for b in 0..(n + 7) / 8 @blockIdx.x {
    alloc a: bf16[8, 64] @shared
    alloc arrivals: u64[1] @shared
    call cinn_init_arrivals(&arrivals[0], 1, 1) computes {
    }
    call cinn_tensor_copy(&a[0, 0], &arrivals[0], &x[0, 0], 64, n, 1, 64, 64, 8, 0, b * 8) computes {
      for r in 0..8 {
        for c in 0..64 {
          a[r, c] = x[b * 8 + r, c; b * 8 + r < n]
        }
      }
    }
    call cinn_await_copies(&arrivals[0], 0) computes {
    }
    for i in 0..8 {
      for j in 0..64 {
        if b * 8 + i < n {
          y[b * 8 + i, j] = a[i, j]
        }
      }
    }
  }
}
)";
  const auto split = SplitHostDevice(*ParseModule(nest));
  ASSERT_TRUE(split.ok()) << split.status();
  const std::string text = Print(*split);
  EXPECT_NE(text.find(" (&x[0, 0], n, &y[0, 0]) map(&x[0, 0], [64, n], [1, 64], [64, 8])\n"), text.npos) << text;
  EXPECT_EQ(Print(*ParseModule(text)), text);
  EXPECT_TRUE(Verify(*split).ok()) << Verify(*split);
  HostArray x(DType::kBF16, {20, 64}), y(DType::kBF16, {20, 64});
  for (int i = 0; i < 20 * 64; ++i) x.Set(i, i % 64);
  ASSERT_TRUE(Interpret(*split, "f", {&x, &y}).ok());
  EXPECT_EQ(x.bytes, y.bytes);

  const auto error = [&](const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    const StatusOr<Module> m = ParseModule(std::string(text).replace(at, from.size(), to));
    return m.ok() ? Message(Verify(*m)) : Message(m.status());
  };
  EXPECT_EQ(error(" map(&x[0, 0], [64, n], [1, 64], [64, 8])", ""),
            "@f: launch of @f_kernel: its tensor copies need 1 maps and it got 0");
  EXPECT_EQ(error("[64, 8])", "[64, 16])"),
            "@f: launch of @f_kernel: map 0 is not that of x which its tensor copies need");
  EXPECT_EQ(error("map(&x", "map(&y"), "@f: launch of @f_kernel: map 0 is not that of x which its tensor copies need");
  EXPECT_NE(error("[64, 8])", "[64])").find("a map has as many strides and sides of its box as it has extents"),
            std::string::npos);
  EXPECT_NE(error("[64, 8])", "[64, n])").find("boxes of maps are positive constants, got n"), std::string::npos);
}

}  // namespace cinn_like::ir
